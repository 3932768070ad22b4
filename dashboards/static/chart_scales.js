// Ticks at round values and times, and the texts of both.

const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
const SIZES = [[1e9, " B"], [1e6, " M"], [1e3, " k"]];
// Minutes, then months between ticks of time.
const MINUTES = [1, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10080, 20160];
const MONTH_STEPS = [1, 3, 6, 12];
const FIRST_MONDAY = 4 * 864e5;
const TICK_WIDTH = 64;

// Round values that enclose both ends, about so many.
export function niceTicks(low, high, count = 5) {
  if (!(high > low)) return [low];
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough * 0.999) * power;
  const [first, last] = [Math.floor(low / step + 1e-9), Math.ceil(high / step - 1e-9)];
  return Array.from({ length: last - first + 1 }, (_, index) => Number(((first + index) * step).toPrecision(12)));
}

function compact(value) {
  const [size, unit] = SIZES.find(([least]) => value >= least) ?? [1, ""];
  return `${Number((value / size).toPrecision(4))}${unit}`;
}

function dollars(value, step) {
  if (value >= 1e4) return `$${compact(value).replace(" ", "")}`;
  const digits = step.toFixed(12).replace(/\.?0+$/, "").split(".")[1]?.length ?? 0;
  return `$${value.toLocaleString("en", { minimumFractionDigits: digits && Math.max(digits, 2), maximumFractionDigits: Math.max(digits, 2) })}`;
}

// A value as an axis shows it, with as many digits as tell its ticks apart.
export function formatTick(value, unit, step = 1) {
  const size = Math.abs(value);
  const sign = value < 0 ? "−" : "";
  if (unit === "usd") return sign + dollars(size, step);
  if (unit === "share") return `${sign}${Number((size * 100).toPrecision(4))} %`;
  if (unit === "s" && size) return sign + (size < 1 ? `${Number((size * 1e3).toPrecision(3))} ms` : `${Number(size.toPrecision(3))} s`);
  return sign + compact(size);
}

// A sum to be read: cents from a dollar on, else three digits, as the tables have it.
export function formatSum(value, unit) {
  if (unit !== "usd" || !value) return formatTick(value, unit);
  const size = Math.abs(value);
  const digits = size >= 0.9995 ? 2 : 2 - Math.floor(Math.log10(size));
  return `${value < 0 ? "−" : ""}$${size.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })}`;
}

// Ticks among buckets that begin at these times: the finest step for which the width has room.
export function timeTicks(starts, width) {
  const keys = [
    ...MINUTES.map((minutes) => (time) => Math.floor((time - FIRST_MONDAY) / (minutes * 6e4))),
    ...MONTH_STEPS.map((months) => (time) => Math.floor((new Date(time).getUTCFullYear() * 12 + new Date(time).getUTCMonth()) / months)),
  ];
  const chosen = keys.map((key) => starts.flatMap((time, index) => (index && key(time) === key(starts[index - 1]) ? [] : [index])));
  const ticks = chosen.find((indexes) => indexes.length <= Math.max(2, width / TICK_WIDTH)) ?? chosen.at(-1);
  // The first bucket may be a part of a step; its tick would stand on the next one.
  if (ticks.length > 2 && ticks[1] - ticks[0] < (ticks[2] - ticks[1]) * 0.6) ticks.shift();
  return nameTicks(ticks, starts);
}

// Hours under their day, days under their year, months under their year.
function nameTicks(ticks, starts) {
  const dates = ticks.map((index) => new Date(starts[index]));
  const areTimes = dates.some((date) => date.getUTCHours() || date.getUTCMinutes());
  const areMonths = ticks.length > 1 && dates.every((date) => date.getUTCDate() === 1) && !areTimes;
  const dayOf = (date) => `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]}`;
  let before = "";
  return dates.map((date, index) => {
    const text = areTimes ? date.toISOString().slice(11, 16) : areMonths ? MONTHS[date.getUTCMonth()] : dayOf(date);
    const part = areTimes ? dayOf(date) : String(date.getUTCFullYear());
    const below = part === before ? "" : part;
    before = part;
    return { index: ticks[index], text, below };
  });
}
