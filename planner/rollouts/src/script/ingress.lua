-- Sets the annotations of the Ingress that takes requests to new Pods. `names.plain` is the prefix of the annotations
-- that all classes know; `names.own` that of query parameters and headers, where the class knows them.
local function canary(names)
  local annotations = obj.annotations or {}
  local plain, own = names.plain, names.own

  local function by(prefix, kind, condition)
    local name = prefix .. "canary-by-" .. kind
    local is_pattern = condition.type == "RegularExpression"
    annotations[name] = condition.name
    annotations[name .. "-value"] = not is_pattern and condition.value or nil
    annotations[name .. "-pattern"] = is_pattern and condition.value or nil
  end

  local function add(name, text, separator)
    if text ~= "" then
      local present = annotations[name]
      annotations[name] = present and present .. separator .. text or text
    end
  end

  local function lines(headers)
    local all = {}
    for _, header in ipairs(headers or {}) do
      table.insert(all, header.name .. " " .. header.value)
    end
    return table.concat(all, "\n")
  end

  for _, name in ipairs({ "weight", "by-cookie", "by-header", "by-header-value", "by-header-pattern" }) do
    annotations[plain .. "canary-" .. name] = nil
  end
  annotations[plain .. "canary"] = "true"
  annotations[plain .. "order"] = names.order or annotations[plain .. "order"]
  if obj.weight ~= "-1" then
    annotations[plain .. "canary-weight"] = obj.weight
  end

  for _, match in ipairs(obj.matches or {}) do
    local header = match.headers and match.headers[1]
    local parameter = own and match.queryParams and match.queryParams[1]
    if header and header.name == "canary-by-cookie" then
      annotations[plain .. "canary-by-cookie"] = header.value
    elseif header then
      by(plain, "header", header)
    end
    if parameter then
      by(own, "query", parameter)
    end
  end

  local modifier = own and obj.requestHeaderModifier
  if modifier then
    add(own .. "request-header-control-update", lines(modifier.set), "\n")
    add(own .. "request-header-control-add", lines(modifier.add), "\n")
    add(own .. "request-header-control-remove", table.concat(modifier.remove or {}, ","), ",")
  end
  return annotations
end
