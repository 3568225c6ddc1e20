-- Takes a share of the requests to the stable Service to the canary one; without a canary Service, to the subset
-- `canary` of the stable one.
local spec = obj.data.spec
local stable, canary = obj.stableService, obj.canaryService

local function copied(value)
  if type(value) ~= "table" then
    return value
  end
  local copy = setmetatable({}, getmetatable(value))
  for key, member in pairs(value) do
    copy[key] = copied(member)
  end
  return copy
end

-- What stands behind the name of the stable Service in a host: "", ".namespace" or ".namespace.svc.domain". Nil where
-- the host is another one.
local function domain(host)
  if type(host) ~= "string" or host:sub(1, #stable) ~= stable then
    return nil
  end
  local rest = host:sub(#stable + 1)
  if rest == "" or rest:find("^%.[^.]+$") or rest:find("^%.[^.]+%.svc$") or rest:find("^%.[^.]+%.svc%.") then
    return rest
  end
  return nil
end

local function is_stable(route)
  return type(route.destination) == "table" and domain(route.destination.host) ~= nil
end

local function sends_to_stable(rule)
  for _, route in ipairs(rule.route or {}) do
    if is_stable(route) then
      return true
    end
  end
  return false
end

local function modify(route)
  local modifier = obj.requestHeaderModifier
  if not modifier then
    return
  end
  route.headers = route.headers or {}
  route.headers.request = route.headers.request or {}
  local request = route.headers.request
  for _, operation in ipairs({ "set", "add" }) do
    for _, header in ipairs(modifier[operation] or {}) do
      request[operation] = request[operation] or {}
      request[operation][header.name] = header.value
    end
  end
  for _, name in ipairs(modifier.remove or {}) do
    request.remove = request.remove or {}
    table.insert(request.remove, name)
  end
end

-- The route to the new Pods that stands beside a route to the old ones. `is_http` where it can change headers.
local function to_canary(route, weight, is_http)
  local new = copied(route)
  if canary == stable then
    new.destination.subset = "canary"
  else
    new.destination.host = canary .. domain(route.destination.host)
    new.destination.subset = nil
  end
  new.weight = weight
  if is_http then
    modify(new)
  end
  return new
end

local function weighted(rule, is_http)
  local routes = {}
  for _, route in ipairs(rule.route) do
    table.insert(routes, route)
    if is_stable(route) then
      local whole = #rule.route == 1 and 100 or route.weight or 0
      local share = math.floor(whole * obj.canaryWeight / 100 + 0.5)
      table.insert(routes, to_canary(route, share, is_http))
      route.weight = whole - share
    end
  end
  rule.route = routes
end

local comparisons = { Exact = "exact", PathPrefix = "prefix", RegularExpression = "regex" }

-- The conditions of a rule and of a step in one. Nil where no request meets both.
local function both(condition, step)
  local all = copied(condition)
  local function need(kind, name, value, comparison)
    all[kind] = all[kind] or {}
    local present = all[kind][name]
    if present and present.exact and comparison == "exact" and present.exact ~= value then
      return false
    end
    all[kind][name] = { [comparison] = value }
    return true
  end
  if step.path then
    all.uri = { [comparisons[step.path.type]] = step.path.value }
  end
  for _, header in ipairs(step.headers or {}) do
    if not need("headers", header.name:lower(), header.value, comparisons[header.type]) then
      return nil
    end
  end
  for _, parameter in ipairs(step.queryParams or {}) do
    if not need("queryParams", parameter.name, parameter.value, comparisons[parameter.type]) then
      return nil
    end
  end
  return all
end

-- The rule that takes matching requests to the new Pods, to stand before the rule that it is made from.
local function matching(rule)
  local conditions = rule.match
  if not conditions or #conditions == 0 then
    conditions = { {} }
  end
  local new = copied(rule)
  new.name, new.match, new.route = nil, {}, {}
  for _, step in ipairs(obj.matches) do
    for _, condition in ipairs(conditions) do
      table.insert(new.match, both(condition, step))
    end
  end
  for _, route in ipairs(rule.route) do
    if is_stable(route) then
      table.insert(new.route, to_canary(route, nil, true))
      break
    end
  end
  return #new.match > 0 and new or nil
end

local found = false
for _, protocol in ipairs({ "http", "tls", "tcp" }) do
  local rules = {}
  for _, rule in ipairs(spec[protocol] or {}) do
    if sends_to_stable(rule) then
      found = true
      if obj.matches and protocol == "http" then
        table.insert(rules, (matching(rule)))
      elseif not obj.matches then
        weighted(rule, protocol == "http")
      end
    end
    table.insert(rules, rule)
  end
  if spec[protocol] then
    spec[protocol] = rules
  end
end
if not found then
  error("it sends nothing to Service " .. stable, 0)
end
return obj.data
