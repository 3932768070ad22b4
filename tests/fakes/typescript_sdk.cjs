// Anthropic's TypeScript SDK, used as its README shows: `node typescript_sdk.cjs SCENE MODEL`.
// It prints what it saw as JSON. The SDK is looked for in the folder that SDK_FOLDER names.
const { createRequire } = require("node:module");

const sdk = createRequire(`${process.env.SDK_FOLDER}/package.json`);
const Anthropic = sdk("@anthropic-ai/sdk");
const { betaTool } = sdk("@anthropic-ai/sdk/helpers/beta/json-schema");

const [scene, model] = process.argv.slice(2);
const headers = { "x-thriftgate-feature": process.env.FEATURE };
const client = new Anthropic({ maxRetries: 0, defaultHeaders: headers });
const user = (content) => [{ role: "user", content }];
const asked = { model, max_tokens: 2000 };

const scenes = {
  async stream() {
    const stream = client.messages.stream({ ...asked, messages: user("Say hello.") });
    const kinds = [];
    let words = "";
    stream.on("streamEvent", (event) => kinds.push(event.type));
    stream.on("text", (text) => (words += text));
    const message = await stream.finalMessage();
    return { kinds, words, text: message.content.at(-1).text, usage: message.usage };
  },

  async tools() {
    const places = [];
    const weather = betaTool({
      name: "weather",
      description: "The weather of a place.",
      inputSchema: {
        type: "object",
        properties: { place: { type: "string" } },
        required: ["place"],
      },
      run: ({ place }) => {
        places.push(place);
        return "8 degrees";
      },
    });
    const runner = client.beta.messages.toolRunner({
      ...asked,
      messages: user("Weather in Oslo? [[fault:call=weather]]"),
      tools: [weather],
    });
    const answer = await runner.runUntilDone();
    return { calls: places.length, reason: answer.stop_reason };
  },

  async thinking() {
    const thinking = { type: "adaptive" };
    const first = await client.messages.create({ ...asked, thinking, messages: user("Think.") });
    const messages = [
      ...user("Think."),
      { role: "assistant", content: first.content },
      ...user("Go on."),
    ];
    const second = await client.messages.create({ ...asked, thinking, messages });
    return {
      kinds: first.content.map((block) => block.type),
      signed: first.content.every((block) => block.type !== "thinking" || block.signature !== ""),
      reason: second.stop_reason,
    };
  },

  async count() {
    return await client.messages.countTokens({ model, messages: user("How long is this?") });
  },

  async batches() {
    return await failure(() => client.messages.batches.list());
  },

  async refusal() {
    return await failure(() => client.messages.create({ ...asked, messages: [] }));
  },

  async retries() {
    const again = client.withOptions({ maxRetries: 1 });
    return await failure(() =>
      again.messages.create({ ...asked, messages: user("Fail. [[fault:529]]") }),
    );
  },

  async timeout() {
    const hasty = client.withOptions({ timeout: 400 });
    return await failure(() =>
      hasty.messages.create({ ...asked, messages: user("Wait. [[fault:silence]]") }),
    );
  },
};

async function failure(ask) {
  try {
    await ask();
  } catch (error) {
    return {
      kind: error.constructor.name,
      status: error.status ?? null,
      type: error.error?.error?.type ?? null,
      id: error.requestID ?? null,
    };
  }
  return { kind: "none" };
}

scenes[scene]().then(
  (seen) => console.log(JSON.stringify(seen)),
  (error) => {
    console.error(error);
    process.exitCode = 1;
  },
);
