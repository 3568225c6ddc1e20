-- The functions of Lua 5.1 that match patterns, written in Lua: its own ones count no instructions, however long they take.
-- `charge` counts what others do in one call.
local spend = ...
local byte, char, find, rep, sub = string.byte, string.char, string.find, string.rep, string.sub
local concat, floor, unpack = table.concat, math.floor, unpack

local function charge(instructions) spend(floor(instructions)) end

-- Where the item of a pattern ends that begins at a position.
local function item_end(pattern, at)
  local first = sub(pattern, at, at)
  if first == "%" then
    if at >= #pattern then error("malformed pattern (ends with '%')", 0) end
    return at + 2
  elseif first ~= "[" then
    return at + 1
  end
  at = at + 1
  if sub(pattern, at, at) == "^" then at = at + 1 end
  repeat
    if at > #pattern then error("malformed pattern (missing ']')", 0) end
    at = at + (sub(pattern, at, at) == "%" and 2 or 1)
  until sub(pattern, at, at) == "]"
  return at + 1
end

-- Whether an item stands for a character: by Lua itself, once for each character.
local items = {}
local function stands_for(item, code)
  local known = items[item]
  if not known then
    known = {}
    items[item] = known
  end
  if known[code] == nil then
    local escaped = (item == "^" or item == "$") and "%" .. item or item
    known[code] = find(char(code), escaped) ~= nil
  end
  return known[code]
end

local function fits(state, at, from, to)
  local code = byte(state.subject, at)
  return code ~= nil and stands_for(sub(state.pattern, from, to - 1), code)
end

-- Each of these returns where the match ends that begins at `at` with the pattern from `from` on; nothing without one.
local match

local function longest(state, at, from, to)
  local count = 0
  while fits(state, at + count, from, to) do count = count + 1 end
  for left = count, 0, -1 do
    local last = match(state, at + left, to + 1)
    if last then return last end
  end
end

local function shortest(state, at, from, to)
  while true do
    local last = match(state, at, to + 1)
    if last then return last end
    if not fits(state, at, from, to) then return nil end
    at = at + 1
  end
end

local function open(state, at, from, length)
  local level = state.level + 1
  if level > 32 then error("too many captures", 0) end
  state.level, state.begins[level], state.lengths[level] = level, at, length
  local last = match(state, at, from)
  if not last then state.level = state.level - 1 end
  return last
end

local function close(state, at, from)
  local level = state.level
  while state.lengths[level] ~= "open" do
    if level < 1 then error("invalid pattern capture", 0) end
    level = level - 1
  end
  state.lengths[level] = at - state.begins[level]
  local last = match(state, at, from)
  if not last then state.lengths[level] = "open" end
  return last
end

local function balanced(state, at, from)
  local first, last = byte(state.pattern, from, from + 1)
  if not last then error("unbalanced pattern", 0) end
  if byte(state.subject, at) ~= first then return nil end
  local depth = 1
  for position = at + 1, #state.subject do
    local code = byte(state.subject, position)
    if code == last then
      depth = depth - 1
      if depth == 0 then return position + 1 end
    elseif code == first then
      depth = depth + 1
    end
  end
end

local function repeated(state, at, level)
  local length = level >= 1 and level <= state.level and state.lengths[level]
  if not length or length == "open" then error("invalid capture index", 0) end
  if length == "position" then return nil end
  local begins = state.begins[level]
  charge(length)
  if sub(state.subject, at, at + length - 1) == sub(state.subject, begins, begins + length - 1) then
    return at + length
  end
end

function match(state, at, from)
  local subject, pattern = state.subject, state.pattern
  local first, second = sub(pattern, from, from), sub(pattern, from + 1, from + 1)
  if first == "" then
    return at
  elseif first == "(" then
    if second == ")" then return open(state, at, from + 2, "position") end
    return open(state, at, from + 1, "open")
  elseif first == ")" then
    return close(state, at, from + 1)
  elseif first == "$" and second == "" then
    return at > #subject and at or nil
  elseif first == "%" and second == "b" then
    local last = balanced(state, at, from + 2)
    if not last then return nil end
    return match(state, last, from + 4)
  elseif first == "%" and second == "f" then
    if sub(pattern, from + 2, from + 2) ~= "[" then error("missing '[' after '%f' in pattern", 0) end
    local to = item_end(pattern, from + 2)
    local set = sub(pattern, from + 2, to - 1)
    local is_edge = not stands_for(set, byte(subject, at - 1) or 0) and stands_for(set, byte(subject, at) or 0)
    if not is_edge then return nil end
    return match(state, at, to)
  elseif first == "%" and find(second, "^%d") then
    local last = repeated(state, at, tonumber(second))
    if not last then return nil end
    return match(state, last, from + 2)
  end
  local to = item_end(pattern, from)
  local how = sub(pattern, to, to)
  if how == "*" then return longest(state, at, from, to) end
  if how == "-" then return shortest(state, at, from, to) end
  local is_fit = fits(state, at, from, to)
  if how == "+" then return is_fit and longest(state, at + 1, from, to) or nil end
  if how == "?" then
    local last = is_fit and match(state, at + 1, to + 1)
    if last then return last end
    return match(state, at, to + 1)
  end
  if is_fit then return match(state, at + 1, to) end
end

-- A match of a pattern, without the `^` before it, and whether there is one.
local function begin(subject, pattern, is_anchor)
  subject, pattern = sub(subject, 1), sub(pattern, 1)
  local is_anchored = is_anchor and sub(pattern, 1, 1) == "^"
  if is_anchored then pattern = sub(pattern, 2) end
  return { subject = subject, pattern = pattern, begins = {}, lengths = {}, level = 0 }, is_anchored
end

local function match_at(state, at)
  state.level = 0
  return match(state, at, 1)
end

local function capture(state, level, at, last)
  if level > state.level then
    if level > 1 then error("invalid capture index", 0) end
    return sub(state.subject, at, last - 1)
  end
  local begins, length = state.begins[level], state.lengths[level]
  if length == "open" then error("unfinished capture", 0) end
  if length == "position" then return begins end
  return sub(state.subject, begins, begins + length - 1)
end

local function captures(state, at, last)
  local all, count = {}, state.level
  if count == 0 and at then count = 1 end
  for level = 1, count do all[level] = capture(state, level, at, last) end
  return unpack(all, 1, count)
end

local function search(subject, pattern, init, is_find)
  local state, is_anchored = begin(subject, pattern, true)
  local size = #state.subject
  init = floor(init or 1)
  if init < 0 then init = init + size + 1 end
  for at = math.min(math.max(init, 1), size + 1), size + 1 do
    local last = match_at(state, at)
    if last and is_find then return at, last - 1, captures(state) end
    if last then return captures(state, at, last) end
    if is_anchored then break end
  end
  return nil
end

function string.find(subject, pattern, init, plain)
  charge(#sub(subject, 1) * #sub(pattern, 1) / 1000)
  if plain or not find(pattern, "[%^%$%*%+%?%.%(%[%%%-]") then return find(subject, pattern, init, true) end
  return search(subject, pattern, init, true)
end

function string.match(subject, pattern, init)
  return search(subject, pattern, init, false)
end

function string.gmatch(subject, pattern)
  local state = begin(subject, pattern, false)
  local from = 1
  return function()
    for at = from, #state.subject + 1 do
      local last = match_at(state, at)
      if last then
        from = last > at and last or last + 1
        return captures(state, at, last)
      end
    end
    from = #state.subject + 2
  end
end

-- A text in which `%1` and the like are captures.
local function filled(state, text, at, last)
  local parts, position = {}, 1
  while position <= #text do
    local part = sub(text, position, position)
    if part == "%" then
      position = position + 1
      part = sub(text, position, position)
      if part == "0" then
        part = sub(state.subject, at, last - 1)
      elseif find(part, "^%d") then
        part = capture(state, tonumber(part), at, last)
      end
    end
    parts[#parts + 1] = part
    position = position + 1
  end
  return concat(parts)
end

local function replaced(state, by, at, last)
  local value
  if type(by) == "function" then
    value = by(captures(state, at, last))
  elseif type(by) == "table" then
    value = by[capture(state, 1, at, last)]
  else
    return filled(state, by, at, last)
  end
  if not value then return sub(state.subject, at, last - 1) end
  if type(value) ~= "string" and type(value) ~= "number" then
    error("invalid replacement value (a " .. type(value) .. ")", 0)
  end
  return value
end

function string.gsub(subject, pattern, by, most)
  local state, is_anchored = begin(subject, pattern, true)
  if type(by) ~= "function" and type(by) ~= "table" then by = sub(by, 1) end
  local parts, count, at, size = {}, 0, 1, #state.subject
  while count < (most or size + 1) do
    local last = match_at(state, at)
    if last then
      count = count + 1
      parts[#parts + 1] = replaced(state, by, at, last)
    end
    if last and last > at then
      at = last
    elseif at <= size then
      parts[#parts + 1] = sub(state.subject, at, at)
      at = at + 1
    else
      break
    end
    if is_anchored then break end
  end
  parts[#parts + 1] = sub(state.subject, at)
  return concat(parts), count
end

function string.rep(text, count)
  charge((#sub(text, 1) + 1) * count / 100)
  return rep(text, count)
end

-- These take as long as their lists are, but for what `insert` and `remove` do at the end, without a position: after how
-- many arguments that is, and how much each item counts.
for name, weight in pairs({ concat = { -1, 0.1 }, insert = { 1, 0.1 }, maxn = { -1, 0.1 }, remove = { 0, 0.1 }, sort = { -1, 2 } }) do
  local called = table[name]
  table[name] = function(list, ...)
    if select("#", ...) > weight[1] then charge(#list * weight[2]) end
    return called(list, ...)
  end
end
