use serde_json::{Value, json};

use super::*;

fn run(script: &str) -> Result<Value, String> {
    engine::run("", script, &json!({}))
}

fn with(obj: &Value, script: &str) -> Value {
    engine::run("", script, obj).unwrap()
}

fn ingress(class: &str, obj: &Value) -> Value {
    Scripts::default().ingress(class).unwrap().run(obj).unwrap()
}

fn of_user(name: &str, text: &str) -> Scripts {
    Scripts::of(Some(&json!({"data": {name: text, "other": "x"}})))
}

#[test]
fn values_pass_unchanged_through_a_script() {
    let obj = json!({"text": "é", "whole": -3, "large": 9_007_199_254_740_992_i64, "part": 0.25, "yes": true, "list": [1, [], {}],
        "nested": {"empty list": [], "empty object": {}}});
    assert_eq!(with(&obj, "return obj"), obj);
    assert_eq!(with(&json!({"a": null, "b": 1}), "return obj"), json!({"b": 1}), "Lua has no null");
}

#[test]
fn a_list_that_a_script_empties_or_fills_stays_a_list() {
    let obj = json!({"full": [1], "empty": []});
    let script = "table.remove(obj.full) table.insert(obj.empty, 'x') return obj";
    assert_eq!(with(&obj, script), json!({"full": [], "empty": ["x"]}));
}

#[test]
fn a_number_that_lua_would_change_is_refused() {
    let problem = engine::run("", "return obj", &json!({"a": 9_007_199_254_740_993_i64})).unwrap_err();
    assert!(problem.contains("9007199254740993"), "{problem}");
}

#[test]
fn a_script_that_does_not_end_is_stopped_wherever_it_catches_errors() {
    for script in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "local function f() while true do pcall(f) end end f()",
        "xpcall(function() while true do end end, function() while true do end end)",
        "repeat until pcall(error, setmetatable({}, {__tostring = function() while true do end end})) == 1",
        "table.sort({3, 2, 1}, function() while true do end end)",
        "string.gsub('a', 'a', function() while true do end end)",
        "return setmetatable({}, {__index = function() while true do end end}).x",
        "error(setmetatable({}, {__tostring = function() while true do end end}))",
    ] {
        let problem = run(script).unwrap_err();
        assert!(problem.contains("instructions"), "{script}: {problem}");
    }
}

#[test]
fn what_one_call_does_counts_too() {
    for script in [
        "string.find(string.rep('a', 50), string.rep('a?', 50) .. string.rep('a', 50))",
        "string.match(string.rep('a', 3000), '.-.-.-.-b')",
        "string.gsub(string.rep('a', 300), ('(.*)'):rep(9) .. 'b', '')",
        "for _ in string.gmatch(string.rep('a', 300), '.*.*.*.*b') do end",
        "while true do string.rep('', 1e9) end",
        "string.find(string.rep('a', 2e6), string.rep('a', 1e6) .. 'b', 1, true)",
        "local t = {} for i = 1, 5e4 do t[i] = i end while true do table.insert(t, 1, table.remove(t)) end",
        "local t = {} for i = 1, 5e4 do t[i] = i end while true do table.sort(t) end",
    ] {
        let problem = run(script).unwrap_err();
        assert!(problem.contains("instructions"), "{script}: {problem}");
    }
    // Nested so deeply that the stack of C would not do.
    let deep = "string.find(string.rep('a', 1e6), string.rep('a?', 1e6))";
    assert!(run(deep).is_err());
}

/// Lua's own functions of these names.
fn by_lua(call: &str) -> Result<String, String> {
    let lua = mlua::Lua::new();
    lua.load(format!("{TOLD} return {call}")).eval::<String>().map_err(|error| error.to_string())
}

fn by_ours(call: &str) -> Result<String, String> {
    run(&format!("{TOLD} return {{ {call} }}")).map(|told| told[0].as_str().unwrap().to_owned())
}

/// A function that prints what it is given.
const TOLD: &str = "local function told(...) local all = {}
    for i = 1, select('#', ...) do all[i] = type((select(i, ...))) .. tostring((select(i, ...))) end
    return table.concat(all, ' ') end
    local function each(next) local all = {} for a, b in next do all[#all + 1] = told(a, b) end return table.concat(all, ';') end ";

proptest::proptest! {
    #[test]
    fn patterns_match_as_those_of_lua(
        pattern in "\\^?(([ab.]|\\[[ab^]{1,2}\\]|%[awsd%]|\\(|\\)|\\(\\)|%b\\(\\)|%f\\[%w\\]|%1|\\^|\\$|])[*+?-]?){0,5}\\$?",
        subject in "[ab(). ]{0,8}",
        init in -9..9i32,
    ) {
        for call in [
            format!("told(string.find('{subject}', '{pattern}', {init}))"),
            format!("told(('{subject}'):match('{pattern}', {init}))"),
            format!("each(string.gmatch('{subject}', '{pattern}'))"),
            format!("told(string.gsub('{subject}', '{pattern}', '<%0%1%%>'))"),
            format!("told(string.gsub('{subject}', '{pattern}', function(...) return told(...) end, 3))"),
            format!("told(string.gsub('{subject}', '{pattern}', {{ a = 'x', ab = 1 }}))"),
        ] {
            match (by_lua(&call), by_ours(&call)) {
                (Ok(theirs), Ok(ours)) => proptest::prop_assert_eq!(ours, theirs, "{}", call),
                (theirs, ours) => proptest::prop_assert!(theirs.is_err() && ours.is_err(), "{}: {:?} {:?}", call, theirs, ours),
            }
        }
    }
}

#[test]
fn a_script_that_eats_memory_is_stopped() {
    for script in [
        "local t = {} while true do t[#t + 1] = {} end",
        "local s = 'x' while true do s = s .. s end",
        "return { s = string.rep('x', 100000000) }",
        "local s = 'x' while true do pcall(function() s = s .. s end) end",
        "local s, n = string.rep('x', 1000000), 0 while true do n = n + 1 local copy = s .. n end",
    ] {
        assert!(run(script).is_err(), "{script}");
    }
}

#[test]
fn deep_recursion_is_an_error_and_no_crash() {
    for script in [
        "local function f() return 1 + f() end return f()",
        "local function f() return (string.gsub('a', 'a', f)) end return f()",
        "local t = {} for i = 1, 100000 do t = { t } end return t",
        "local t = {} t.t = t return t",
    ] {
        assert!(run(script).is_err(), "{script}");
    }
}

#[test]
fn a_small_table_that_stands_for_a_huge_value_is_refused() {
    let problem = run("local t = {'x'} for i = 1, 50 do t = { t, t } end return t").unwrap_err();
    assert!(problem.contains("too large"), "{problem}");
    let problem =
        run("local s = string.rep('x', 1000000) local t = {} for i = 1, 10 do t[i] = s end return t")
            .unwrap_err();
    assert!(problem.contains("too large"), "{problem}");
}

#[test]
fn nothing_reaches_out_of_a_script() {
    for name in [
        "io",
        "os",
        "debug",
        "package",
        "load",
        "loadstring",
        "loadfile",
        "dofile",
        "module",
        "collectgarbage",
        "gcinfo",
        "newproxy",
        "coroutine",
        "string.dump",
        "math.random",
        "math.randomseed",
    ] {
        assert_eq!(
            run(&format!("return {{ kind = type({name}) }}")).unwrap(),
            json!({"kind": "nil"}),
            "{name}"
        );
    }
    assert!(run("return { io.open('/etc/passwd'):read() }").is_err());
    assert!(run("return { require('io').open('/etc/passwd') }").unwrap_err().contains("no module io"));
    assert!(run("\u{1b}Lua").is_err(), "compiled");
    assert_eq!(run("print('x') return {}").unwrap(), json!({}));
}

#[test]
fn what_is_no_json_is_refused() {
    for (script, says) in [
        ("", "nil and no table"),
        ("return 5", "no table"),
        ("return 'text'", "no table"),
        ("return { print }", "no function"),
        ("return { [true] = 1 }", "as a key"),
        ("return { 1, a = 2 }", "neither a list nor an object"),
        ("return { [1] = 1, [3] = 3 }", "neither a list nor an object"),
        ("return { 0 / 0 }", "no number"),
        ("return { '\\255' }", "UTF-8"),
        ("return {", "script:1"),
        ("error('my words')", "my words"),
        ("error({})", ""),
        ("return obj.a.b", "script:1"),
    ] {
        let problem = run(script).unwrap_err();
        assert!(problem.contains(says) && !problem.is_empty(), "{script}: {problem}");
        assert!(!problem.contains('\n') && problem.chars().count() <= 300, "{script}: {problem}");
    }
    assert!(run("error(string.rep('x', 10000))").unwrap_err().chars().count() <= 300);
}

#[test]
fn the_base_library_works() {
    let script = "
        local found = {}
        for name in string.gmatch('a,b', '[^,]+') do table.insert(found, name) end
        local ok, problem = xpcall(function() error('oh', 0) end, function(x) return x .. '!' end)
        return { found = found, floor = math.floor(1.5), ok = ok, problem = problem, number = tonumber('12') }";
    let expected = json!({"found": ["a", "b"], "floor": 1, "ok": false, "problem": "oh!", "number": 12});
    assert_eq!(run(script).unwrap(), expected);
}

#[test]
fn json_is_read_and_written() {
    let script = "
        local json = require('json')
        local value = json.decode('{\"a\": [1, {}], \"e\": []}')
        local text = json.encode(value)
        local nothing, problem = json.decode('{')
        local neither, why = json.encode({ print })
        return { text = text, nothing = nothing == nil, problem = type(problem), neither = neither == nil, why = type(why) }";
    let expected = json!({"text": r#"{"a":[1,{}],"e":[]}"#, "nothing": true, "problem": "string", "neither": true, "why": "string"});
    assert_eq!(run(script).unwrap(), expected);
}

#[test]
fn a_users_script_comes_before_ours_for_ingresses_and_behind_it_for_other_kinds() {
    let name = "lua.traffic.routing.ingress.nginx";
    let scripts = of_user(name, "return { mine = obj.weight }");
    assert_eq!(scripts.ingress("nginx").unwrap().run(&json!({"weight": "5"})).unwrap(), json!({"mine": "5"}));
    assert!(scripts.has_ingress("nginx") && !scripts.has_ingress("mse"));

    let name = "lua.traffic.routing.DestinationRule.networking.istio.io";
    let scripts = of_user(name, "return {}");
    let obj = json!({"data": {"spec": {}}});
    let made = scripts.custom("networking.istio.io", "DestinationRule").unwrap().run(&obj).unwrap();
    assert_eq!(made["spec"]["subsets"][0]["name"], "canary");

    let scripts = of_user("lua.traffic.routing.ApisixRoute.apisix.apache.org", "return {}");
    assert!(scripts.custom("apisix.apache.org", "ApisixRoute").is_ok());
}

#[test]
fn a_missing_script_is_named_and_so_is_one_that_fails() {
    let problem = Scripts::default().ingress("traefik").unwrap_err();
    assert!(
        problem.contains("lua.traffic.routing.ingress.traefik") && problem.contains(CONFIGURATION),
        "{problem}"
    );
    assert!(
        Scripts::of(None)
            .custom("example.org", "Route")
            .unwrap_err()
            .contains("lua.traffic.routing.Route.example.org")
    );
    let scripts = of_user("lua.traffic.routing.ingress.a", "error('oh', 0)");
    let problem = scripts.ingress("a").unwrap().run(&json!({})).unwrap_err();
    assert_eq!(problem, "script lua.traffic.routing.ingress.a: runtime error: oh");
}

const NGINX: &str = "nginx.ingress.kubernetes.io/";

#[test]
fn nginx_gets_a_weight() {
    let obj =
        json!({"annotations": {"kept": "1", format!("{NGINX}canary-by-header"): "old"}, "weight": "20"});
    let expected =
        json!({"kept": "1", format!("{NGINX}canary"): "true", format!("{NGINX}canary-weight"): "20"});
    assert_eq!(ingress("nginx", &obj), expected);
}

#[test]
fn nginx_gets_a_header_a_pattern_or_a_cookie() {
    let of =
        |condition: Value| ingress("nginx", &json!({"weight": "-1", "matches": [{"headers": [condition]}]}));
    assert_eq!(
        of(json!({"type": "Exact", "name": "user", "value": "me"})),
        json!({format!("{NGINX}canary"): "true", format!("{NGINX}canary-by-header"): "user", format!("{NGINX}canary-by-header-value"): "me"})
    );
    assert_eq!(
        of(json!({"type": "RegularExpression", "name": "user", "value": "m.*"})),
        json!({format!("{NGINX}canary"): "true", format!("{NGINX}canary-by-header"): "user", format!("{NGINX}canary-by-header-pattern"): "m.*"})
    );
    assert_eq!(
        of(json!({"type": "Exact", "name": "canary-by-cookie", "value": "beta"})),
        json!({format!("{NGINX}canary"): "true", format!("{NGINX}canary-by-cookie"): "beta"})
    );
}

#[test]
fn of_a_kind_the_last_match_holds_and_of_a_match_the_first_header() {
    let header = |name: &str, kind: &str| json!({"type": kind, "name": name, "value": "v"});
    let matches = json!([
        {"headers": [header("a", "RegularExpression")]},
        {"headers": [header("b", "Exact"), header("c", "Exact")]},
        {"headers": [header("canary-by-cookie", "Exact")]},
        {"path": {"type": "Exact", "value": "/"}},
    ]);
    let made = ingress("nginx", &json!({"weight": "-1", "matches": matches}));
    let expected = json!({
        format!("{NGINX}canary"): "true", format!("{NGINX}canary-by-header"): "b",
        format!("{NGINX}canary-by-header-value"): "v", format!("{NGINX}canary-by-cookie"): "v",
    });
    assert_eq!(made, expected);
}

#[test]
fn an_alb_comes_first() {
    let made = ingress("aliyun-alb", &json!({"weight": "5", "annotations": {}}));
    let prefix = "alb.ingress.kubernetes.io/";
    let expected = json!({format!("{prefix}canary"): "true", format!("{prefix}canary-weight"): "5", format!("{prefix}order"): "1"});
    assert_eq!(made, expected);
}

#[test]
fn mse_and_higress_know_query_parameters_and_change_headers() {
    for (class, own) in [("mse", "mse.ingress.kubernetes.io/"), ("higress", "higress.io/")] {
        let obj = json!({
            "weight": "-1",
            "annotations": {format!("{own}request-header-control-update"): "x 1"},
            "matches": [{"queryParams": [{"type": "Exact", "name": "q", "value": "1"}]}],
            "requestHeaderModifier": {
                "set": [{"name": "a", "value": "1"}, {"name": "b", "value": "2"}],
                "add": [{"name": "c", "value": "3"}],
                "remove": ["d", "e"],
            },
        });
        let expected = json!({
            format!("{NGINX}canary"): "true",
            format!("{own}canary-by-query"): "q",
            format!("{own}canary-by-query-value"): "1",
            format!("{own}request-header-control-update"): "x 1\na 1\nb 2",
            format!("{own}request-header-control-add"): "c 3",
            format!("{own}request-header-control-remove"): "d,e",
        });
        assert_eq!(ingress(class, &obj), expected, "{class}");
    }
}

fn virtual_service(share: &Value, spec: &Value) -> Value {
    let mut obj = json!({"data": {"spec": spec, "labels": {}, "annotations": {}}, "canaryWeight": -1, "stableWeight": 101,
        "stableService": "web", "canaryService": "web-canary"});
    obj.as_object_mut().unwrap().extend(share.as_object().unwrap().clone());
    let script = Scripts::default();
    let made = script.custom("networking.istio.io", "VirtualService").unwrap().run(&obj).unwrap();
    made["spec"].clone()
}

fn to(host: &str, weight: i32) -> Value {
    json!({"destination": {"host": host}, "weight": weight})
}

#[test]
fn a_virtual_service_divides_requests_by_weight() {
    let spec = json!({"hosts": ["web"], "http": [
        {"match": [{"uri": {"prefix": "/other"}}], "route": [{"destination": {"host": "other"}}]},
        {"route": [{"destination": {"host": "web.shop.svc.cluster.local", "port": {"number": 80}}}]},
        {"route": [to("web", 60), to("other", 40)]},
        {"redirect": {"uri": "/"}},
    ], "tcp": [{"route": [{"destination": {"host": "web"}}]}]});
    let share = json!({"canaryWeight": 20, "stableWeight": 80});
    let made = virtual_service(&share, &spec);
    assert_eq!(made["http"][0], spec["http"][0]);
    let host = |name: &str, weight: i32| json!({"destination": {"host": format!("{name}.shop.svc.cluster.local"), "port": {"number": 80}}, "weight": weight});
    assert_eq!(made["http"][1]["route"], json!([host("web", 80), host("web-canary", 20)]));
    assert_eq!(made["http"][2]["route"], json!([to("web", 48), to("web-canary", 12), to("other", 40)]));
    assert_eq!(made["http"][3], spec["http"][3]);
    assert_eq!(made["tcp"][0]["route"], json!([to("web", 80), to("web-canary", 20)]));
    assert_eq!(made["hosts"], json!(["web"]));
}

#[test]
fn a_virtual_service_takes_matching_requests_by_a_rule_before_the_users() {
    let rule = json!({"name": "main", "timeout": "5s", "match": [{"uri": {"prefix": "/api"}, "headers": {"env": {"exact": "prod"}}}],
        "route": [{"destination": {"host": "web", "subset": "v1"}}]});
    let matches = json!([
        {"headers": [{"type": "Exact", "name": "User", "value": "me"}]},
        {"path": {"type": "Exact", "value": "/beta"}, "queryParams": [{"type": "RegularExpression", "name": "q", "value": "a.*"}]},
        {"headers": [{"type": "Exact", "name": "env", "value": "test"}]},
    ]);
    let share = json!({"matches": matches, "requestHeaderModifier": {"set": [{"name": "x", "value": "1"}], "remove": ["y"]}});
    let made = virtual_service(&share, &json!({"http": [rule]}));
    let env = json!({"exact": "prod"});
    let copy = json!({
        "timeout": "5s",
        "match": [
            {"uri": {"prefix": "/api"}, "headers": {"env": env, "user": {"exact": "me"}}},
            {"uri": {"exact": "/beta"}, "headers": {"env": env}, "queryParams": {"q": {"regex": "a.*"}}},
        ],
        "route": [{"destination": {"host": "web-canary"}, "headers": {"request": {"set": {"x": "1"}, "remove": ["y"]}}}],
    });
    assert_eq!(made["http"], json!([copy, rule]));
}

#[test]
fn without_a_canary_service_a_virtual_service_names_the_subset() {
    let share = json!({"canaryWeight": 20, "canaryService": "web"});
    let made = virtual_service(
        &share,
        &json!({"http": [{"route": [{"destination": {"host": "web", "subset": "v1"}}]}]}),
    );
    let expected = json!([
        {"destination": {"host": "web", "subset": "v1"}, "weight": 80},
        {"destination": {"host": "web", "subset": "canary"}, "weight": 20},
    ]);
    assert_eq!(made["http"][0]["route"], expected);
}

#[test]
fn a_virtual_service_that_does_not_lead_to_the_service_is_an_error() {
    for host in ["other", "web2", "web.example.com", "website.shop"] {
        let obj = json!({"data": {"spec": {"http": [{"route": [{"destination": {"host": host}}]}]}}, "canaryWeight": 1,
            "stableService": "web", "canaryService": "web-canary"});
        let script = Scripts::default();
        let problem = script.custom("networking.istio.io", "VirtualService").unwrap().run(&obj).unwrap_err();
        assert!(problem.contains("sends nothing to Service web"), "{host}: {problem}");
    }
}

#[test]
fn a_destination_rule_gets_the_subset_once() {
    let script = Scripts::default();
    let script = script.custom("networking.istio.io", "DestinationRule").unwrap();
    let data = json!({"spec": {"host": "web", "subsets": [{"name": "v1"}]}, "labels": {"a": "b"}, "annotations": {}});
    let made = script.run(&json!({"data": data})).unwrap();
    let canary = json!({"name": "canary", "labels": {"istio.service.tag": "gray"}});
    assert_eq!(made["spec"]["subsets"], json!([{"name": "v1"}, canary]));
    assert_eq!(script.run(&json!({"data": made})).unwrap(), made);
    assert_eq!(made["labels"], json!({"a": "b"}));
}
