-- Makes the new Pods a subset, which the VirtualService of the release names.
local spec = obj.data.spec
spec.subsets = spec.subsets or {}
for _, subset in ipairs(spec.subsets) do
  if subset.name == "canary" then
    return obj.data
  end
end
table.insert(spec.subsets, { name = "canary", labels = { ["istio.service.tag"] = "gray" } })
return obj.data
