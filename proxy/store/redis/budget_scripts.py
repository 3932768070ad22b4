"""The scripts by which Redis keeps counters; ``budget_store`` describes their data.

Each is ``HEAD`` and one of the others.
"""

from typing import Final

from proxy.store.ports import CountersCondition
from slo.budgets.leases import MAX_LEASE_DIVISOR
from slo.budgets.reservations import (
    CHECKPOINT_TTL_S,
    COUNTER_RETENTION_S,
    MAX_SETTLED_REMEMBERED,
    SETTLED_MEMORY_S,
    UNKNOWN_WINDOW_RETENTION_S,
)

MARKED: Final = 30.0
"""Seconds for which a mark says that counters are whole, unless it is made anew."""

_MAX_ROUNDS = 10  # of a hundred holds that are freed: a script must end soon

# KEYS: settled, checkpoint, then counter and holds of each counter, then the mark where it matters.
# ARGV: now in ms or '', then the operation's own. Numbers stay below 2^53 wherever they are
# compared; sums are added by Redis, as int64.
HEAD: Final = f"""
local KEPT, MEMORY = {COUNTER_RETENTION_S * 1000:.0f}, {SETTLED_MEMORY_S * 1000:.0f}
local UNBOUND = {UNKNOWN_WINDOW_RETENTION_S * 1000:.0f}
local REMEMBERED, ROUNDS = {MAX_SETTLED_REMEMBERED}, {_MAX_ROUNDS}
local WHOLE, MARKED = '{CountersCondition.WHOLE}', {MARKED * 1000:.0f}
local call, settled, count = redis.call, KEYS[1], math.floor((#KEYS - 2) / 2)
local mark = #KEYS % 2 == 1 and KEYS[#KEYS]

local function time()
  if ARGV[1] ~= '' then return tonumber(ARGV[1]) end
  local t = call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

local function counter(i) return KEYS[2 * i + 1], KEYS[2 * i + 2] end

local function free(sums, holds, name)
  local amount, others = unpack(call('HMGET', sums, '#' .. name, '+' .. name))
  if amount then
    call('HINCRBY', sums, 'h', 0 - amount)
    call('HDEL', sums, '#' .. name)
  end
  if others then
    call('HINCRBY', sums, 'r', 0 - others)
    call('HDEL', sums, '+' .. name)
  end
  call('HDEL', sums, '~' .. name)
  call('ZREM', holds, name)
end

local function expire(sums, holds, name)
  local used = call('HGET', sums, '~' .. name)
  if used then
    call('HINCRBY', sums, 's', used)
    call('HSET', sums, '!' .. name, used)
  end
  free(sums, holds, name)
end

-- Part of what is lifted may be of calls whose holds run out: their ends must not count it again.
-- Holds of the dead end soonest, since nobody extends them.
local function count_once(sums, holds, lifted)
  for _, name in ipairs(call('ZRANGE', holds, 0, 999)) do
    local used = math.min(tonumber(call('HGET', sums, '~' .. name) or 0), lifted)
    if used > 0 then call('HINCRBY', sums, '~' .. name, string.format('%.0f', 0 - used)) end
    lifted = lifted - used
    if lifted <= 0 then return end
  end
end

local function take_back(sums, name)
  local used = call('HGET', sums, '!' .. name)
  if used then
    call('HINCRBY', sums, 's', 0 - used)
    call('HDEL', sums, '!' .. name)
  end
end

local function running(sums, holds)
  return call('ZCARD', holds) + (call('HGET', sums, 'r') or 0)
end

local function sweep(sums, holds, now)
  for _ = 1, ROUNDS do
    local gone = call('ZRANGEBYSCORE', holds, '-inf', now, 'LIMIT', 0, 100)
    for _, name in ipairs(gone) do expire(sums, holds, name) end
    if #gone < 100 then return end
  end
end

local function level(sums)
  local found = call('HMGET', sums, 's', 'h')
  return found[1] or '0', found[2] or '0'
end

local function bound(sums)
  if call('PTTL', sums) == -1 then call('PEXPIRE', sums, UNBOUND) end
end

local function follow(sums, checkpoint)
  if call('HGET', sums, 'c') ~= checkpoint then
    call('HSET', sums, 'c', checkpoint, 'a', '0')
    call('HDEL', sums, 'b')
  end
end

local function spend(sums, amount, ended, checkpoint)
  if checkpoint then
    follow(sums, checkpoint)
    if tonumber(ended) >= tonumber(checkpoint) then
      call('HINCRBY', sums, 'a', amount)
    elseif call('HEXISTS', sums, 'b') == 1 then
      return
    end
  end
  call('HINCRBY', sums, 's', amount)
end

local function levels()
  local found = {{}}
  for i = 1, count do
    local spent, held = level((counter(i)))
    found[2 * i - 1], found[2 * i] = spent, held
  end
  return found
end

local now = time()
"""

# ARGV[2..]: name, ms to hold, 1 if it counts as spent at its end, then amount, limit ('' if soft)
# and end of the window in ms of each. Returns {1, then spent and held of each, then the number of
# holds of each}, or {0, claim, spent,
# held, ms until a hold ends or -1, number of holds}, or {2} if the mark matters and does not say
# that the counters are whole.
RESERVE: Final = """
if mark and call('GET', mark) ~= WHOLE then return {2} end
local name, ttl = ARGV[2], tonumber(ARGV[3])
local before = call('ZSCORE', settled, name)
local known = before and tonumber(before) > now - MEMORY
for i = 1, count do
  local sums, holds = counter(i)
  sweep(sums, holds, now)
  known = known or call('HEXISTS', sums, '#' .. name) + call('HEXISTS', sums, '!' .. name) > 0
end
if not known then
  local refused
  for i = 1, count do
    local sums, holds = counter(i)
    local spent, held = level(sums)
    local amount, limit = tonumber(ARGV[3 * i + 2]), tonumber(ARGV[3 * i + 3])
    if limit and spent + held + amount > limit then
      local calls = running(sums, holds)
      if spent + amount > limit then return {0, i - 1, spent, held, -1, calls} end
      local soonest = call('ZRANGE', holds, 0, 0, 'WITHSCORES')[2]
      refused = refused or {0, i - 1, spent, held, tonumber(soonest or now) - now, calls}
    end
  end
  if refused then return refused end
  for i = 1, count do
    local sums, holds = counter(i)
    local kept = math.max(ARGV[3 * i + 4] - now, 0) + KEPT
    call('HINCRBY', sums, 'h', ARGV[3 * i + 2])
    call('HSET', sums, '#' .. name, ARGV[3 * i + 2])
    if ARGV[4] == '1' then call('HSET', sums, '~' .. name, ARGV[3 * i + 2]) end
    call('ZADD', holds, now + ttl, name)
    call('PEXPIRE', sums, kept)
    call('PEXPIRE', holds, kept)
  end
end
local said = {1, unpack(levels())}
for i = 1, count do
  said[1 + 2 * count + i] = running(counter(i))
end
return said
"""

# ARGV[2..]: name, the second in which it ended ('' for now), then the amount of each counter.
# Returns 1, or 0 if it was settled before.
SETTLE: Final = """
local name = ARGV[2]
call('ZREMRANGEBYSCORE', settled, '-inf', now - MEMORY)
if call('ZADD', settled, 'NX', now, name) == 0 then return 0 end
call('ZREMRANGEBYRANK', settled, 0, -(REMEMBERED + 1))
call('PEXPIRE', settled, MEMORY)
local checkpoint = call('GET', KEYS[2])
local ended = ARGV[3] ~= '' and ARGV[3] or math.floor(now / 1000)
for i = 1, count do
  local sums, holds = counter(i)
  free(sums, holds, name)
  take_back(sums, name)
  spend(sums, ARGV[i + 3], ended, checkpoint)
  bound(sums)
end
return 1
"""

# ARGV[2..]: name, ms to hold from now. Returns 1 if every counter still held it, or counts it as
# spent, else 0.
EXTEND: Final = """
local name, ttl, held = ARGV[2], tonumber(ARGV[3]), 1
for i = 1, count do
  local sums, holds = counter(i)
  sweep(sums, holds, now)
  if call('ZSCORE', holds, name) then
    call('ZADD', holds, 'XX', 'GT', now + ttl, name)
  elseif call('HEXISTS', sums, '!' .. name) == 0 then
    held = 0
  end
end
return held
"""

# Returns spent and held of each counter.
LEVELS: Final = """
for i = 1, count do
  local sums, holds = counter(i)
  sweep(sums, holds, now)
end
return levels()
"""

# ARGV[2..]: the least that was spent of each counter. Returns what each said before.
LIFT: Final = """
local found = {}
for i = 1, count do
  local sums, holds = counter(i)
  sweep(sums, holds, now)
  found[i] = level(sums)
  local lifted = tonumber(ARGV[i + 1]) - tonumber(found[i])
  if lifted > 0 then
    count_once(sums, holds, lifted)
    call('HSET', sums, 's', ARGV[i + 1])
    bound(sums)
  end
end
return found
"""

# ARGV[2..]: the caller's time, and for how long a checkpoint serves, in seconds. Returns it.
CHECKPOINT: Final = f"""
local before, said = call('GET', KEYS[2]), tonumber(ARGV[2])
if before and said <= tonumber(before) + ARGV[3] then return before end
local begun = string.format('%.0f', said + 1)
call('SET', KEYS[2], begun, 'PX', {CHECKPOINT_TTL_S * 1000:.0f})
return begun
"""

# ARGV[2..]: the checkpoint, then what was spent of each counter before it. Returns what each said.
RESTORE: Final = """
local found, is_whole = {}, call('GET', mark) == WHOLE
local is_current = call('GET', KEYS[2]) == ARGV[2]
for i = 1, count do
  local sums = counter(i)
  found[i] = level(sums)
  if is_current then
    follow(sums, ARGV[2])
    local base = math.max(tonumber(call('HGET', sums, 'b') or 0), tonumber(ARGV[i + 2]))
    local total = base + tonumber(call('HGET', sums, 'a'))
    call('HSET', sums, 'b', string.format('%.0f', base))
    if not is_whole or tonumber(found[i]) < total then
      call('HSET', sums, 's', string.format('%.0f', total))
    end
    bound(sums)
  end
end
return found
"""

# ARGV[2..]: the lease's name, ms for which it is held, 1 if what calls hold of it (the floor) is
# spent at its end, then of each counter's report: serial, number, floor, keep, want, least, 1 if it
# is new, running, limit ('' if soft), end of the window in ms, how many seconds it spent in, and of
# each of them the second and how much. Returns, of each, 1 if it is valid, what the lease holds,
# spent and held of the counter, and how many run.
LEASE: Final = f"""
local SHARE = {MAX_LEASE_DIVISOR}
local name, ttl, counts, at, found = ARGV[2], tonumber(ARGV[3]), ARGV[4] == '1', 5, {{}}
local is_whole, checkpoint = call('GET', mark) == WHOLE, call('GET', KEYS[2])

local function number(text) return tonumber(text or 0) end

local function raised(held, keep, want, least, free)
  local share = math.floor(math.max(free, 0) / SHARE)
  if share < least then share = 0 end
  return math.max(held and keep or 0, math.min(want, share))
end

local function hold(sums, holds, amount, calls, ends, used)
  free(sums, holds, name)
  take_back(sums, name)
  if amount + calls == 0 then return end
  local kept = math.max(ends - now, 0) + KEPT
  call('HINCRBY', sums, 'h', string.format('%.0f', amount))
  call('HINCRBY', sums, 'r', calls - 1)
  call('HSET', sums, '#' .. name, string.format('%.0f', amount), '+' .. name, calls - 1)
  if counts then call('HSET', sums, '~' .. name, used) end
  call('ZADD', holds, now + ttl, name)
  call('PEXPIRE', sums, kept)
  call('PEXPIRE', holds, kept)
end

for i = 1, count do
  local sums, holds = counter(i)
  sweep(sums, holds, now)
  local serial, said, floor, keep, want, least, is_new, calls, limit, ends, seconds =
    unpack(ARGV, at, at + 10)
  at = at + 11
  local last, counted = unpack(call('HMGET', sums, '@' .. name, '%' .. name))
  local is_later = number(last) < number(serial)
  for each = at, at + 2 * seconds - 2, 2 do
    if is_later and number(counted) < number(said) then
      spend(sums, ARGV[each + 1], ARGV[each], checkpoint)
    end
  end
  at = at + 2 * seconds
  local held = call('HGET', sums, '#' .. name)
  local is_valid = is_whole and (held or is_new == '1' or limit == '')
  local amount = number(held)
  if is_later then
    local spent, all = level(sums)
    amount = number(floor)
    if is_valid and limit ~= '' then
      local free = number(limit) - number(spent) - (number(all) - number(held))
      amount = math.max(amount, raised(held, number(keep), number(want), number(least), free))
    end
    hold(sums, holds, amount, number(calls), number(ends), floor)
    call('HSET', sums, '@' .. name, serial, '%' .. name, said)
    bound(sums)
  end
  local spent, all = level(sums)
  local holding = string.format('%.0f', amount)
  found[i] = {{is_valid and 1 or 0, holding, spent, all, running(sums, holds)}}
end
return found
"""

# Returns what the mark says, or ''.
CONDITION: Final = "return call('GET', mark) or ''"

# ARGV[2..]: what the mark says before, or '', and after. Returns 1, or 0 if it says another thing.
TURN: Final = """
if (call('GET', mark) or '') ~= ARGV[2] then return 0 end
call('SET', mark, ARGV[3], 'PX', ARGV[3] == WHOLE and MARKED or UNBOUND)
return 1
"""

ALL: Final = (
    RESERVE, SETTLE, EXTEND, LEVELS, LIFT, CHECKPOINT, RESTORE, LEASE, CONDITION, TURN,
)  # fmt: skip
