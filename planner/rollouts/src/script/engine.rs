//! Runs a script of Lua 5.1 that can do nothing but compute: no files, no clock, no randomness, and only so many
//! instructions and so much memory. So the same script gives the same answer wherever it runs.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use mlua::chunk::ChunkMode;
use mlua::{HookTriggers, Lua, LuaOptions, LuaString, StdLib, Table, VmState};
use serde_json::{Map, Number, Value};

/// How many instructions a script may take: a machine does them in much less than a second. What one of them copies is
/// bounded by [`MEMORY`].
const INSTRUCTIONS: u32 = 5_000_000;
/// How often they are counted.
const COUNTED: u32 = 1_000;
/// How many instructions an error counts for that the script catches: one that tells of lacking memory costs that much.
const CAUGHT: u32 = 10_000;
/// How many bytes a script may ask for. Nothing is collected, so that this bounds what a few instructions can copy, too.
const MEMORY: usize = 16 << 20;
/// How large a value may be that passes between script and program: its texts in bytes, and one for each value.
const SIZE: usize = 4 << 20;
/// How deep tables may nest.
const DEPTH: usize = 64;
/// The largest whole number that Lua holds exactly.
const EXACT: u64 = 1 << 53;
/// The longest message of a failed script that is passed on.
const MESSAGE: usize = 300;

/// What a script finds. All else of the base library reaches out of the script.
const GLOBALS: [&str; 25] = [
    "_G",
    "_VERSION",
    "assert",
    "error",
    "getfenv",
    "getmetatable",
    "ipairs",
    "json",
    "math",
    "next",
    "obj",
    "pairs",
    "pcall",
    "rawequal",
    "rawget",
    "rawset",
    "select",
    "setfenv",
    "setmetatable",
    "string",
    "table",
    "tonumber",
    "tostring",
    "type",
    "unpack",
];

/// The parts of the base library that scripts may use in another form. The error that stops a script must not be caught:
/// `spend` raises it again. Lua's own `xpcall` would call its handler where nothing is counted.
const PRELUDE: &str = r#"
local spend, caught = ...
local call = pcall
math.random, math.randomseed, string.dump = nil, nil, nil
local libraries = { json = json, math = math, string = string, table = table }
function require(name)
  return libraries[name] or error("there is no module " .. tostring(name), 2)
end
function print() end
local function passed(succeeded, ...)
  if not succeeded then spend(caught) end
  return succeeded, ...
end
function pcall(...)
  return passed(call(...))
end
local function handled(handler, succeeded, ...)
  if succeeded then return true, ... end
  return false, handler(...)
end
function xpcall(called, handler)
  return handled(handler, pcall(called))
end
"#;

/// What the library of texts does beyond Lua's own instructions.
const PATTERN: &str = include_str!("pattern.lua");

/// The table that a script returns for the global `obj`; the library stands before the script.
pub(super) fn run(library: &str, script: &str, obj: &Value) -> Result<Value, String> {
    evaluate(library, script, obj).map_err(|error| {
        let text = error.to_string();
        let first = text.lines().find(|line| !line.is_empty()).unwrap_or("it failed");
        first.chars().take(MESSAGE).collect()
    })
}

fn evaluate(library: &str, script: &str, obj: &Value) -> mlua::Result<Value> {
    let lua = Lua::new_with(StdLib::MATH | StdLib::STRING | StdLib::TABLE, LuaOptions::default())?;
    lua.set_memory_limit(MEMORY)?;
    lua.gc_stop();
    let lists = lua.create_table()?;
    let globals = lua.globals();
    globals.set("json", json_module(&lua, &lists)?)?;
    globals.set("obj", to_lua(&lua, &lists, obj)?)?;
    close(&globals)?;
    let left = Rc::new(Cell::new(INSTRUCTIONS));
    let of_script = Rc::clone(&left);
    let spent = lua.create_function(move |_, instructions: i64| {
        spend(&of_script, u32::try_from(instructions.max(0)).unwrap_or(u32::MAX))
    })?;
    lua.load(PRELUDE).call::<()>((spent.clone(), CAUGHT))?;
    lua.load(PATTERN).set_name("=pattern").call::<()>(spent)?;
    let every = HookTriggers::new().every_nth_instruction(COUNTED);
    lua.set_hook(every, move |_, _| spend(&left, COUNTED).map(|()| VmState::Continue))?;
    // A compiled chunk could do what no text can.
    let chunk = lua.load(format!("{library}{script}")).set_name("=script").set_mode(ChunkMode::Text);
    match chunk.into_function()?.call(())? {
        mlua::Value::Table(table) => Reader { lists: &lists, left: SIZE }.table(&table, DEPTH),
        other => Err(failure(format!("it returns {} and no table", other.type_name()))),
    }
}

fn failure(problem: impl Into<String>) -> mlua::Error {
    mlua::Error::runtime(problem.into())
}

/// Takes away what is not listed in [`GLOBALS`].
fn close(globals: &Table) -> mlua::Result<()> {
    let mut others = Vec::new();
    globals.for_each(|name: String, _: mlua::Value| {
        if !GLOBALS.contains(&name.as_str()) {
            others.push(name);
        }
        Ok(())
    })?;
    others.into_iter().try_for_each(|name| globals.raw_set(name, mlua::Value::Nil))
}

/// Counts instructions; an error once there were too many.
fn spend(left: &Cell<u32>, instructions: u32) -> mlua::Result<()> {
    left.set(left.get().saturating_sub(instructions));
    if left.get() > 0 {
        return Ok(());
    }
    Err(failure(format!("it takes more than {INSTRUCTIONS} instructions")))
}

/// The module `json`: `encode` and `decode`, which return nothing and a message where they fail.
fn json_module(lua: &Lua, lists: &Table) -> mlua::Result<Table> {
    let module = lua.create_table()?;
    let known = lists.clone();
    let decode = lua.create_function(move |lua, text: LuaString| {
        let bytes = text.as_bytes();
        if bytes.len() > SIZE {
            return Ok((mlua::Value::Nil, Some("the text is too long".to_owned())));
        }
        match serde_json::from_slice(&bytes) {
            Ok(value) => Ok((to_lua(lua, &known, &value)?, None)),
            Err(error) => Ok((mlua::Value::Nil, Some(error.to_string()))),
        }
    })?;
    let known = lists.clone();
    let encode = lua.create_function(move |_, value: mlua::Value| {
        let read = Reader { lists: &known, left: SIZE }.value(&value, DEPTH);
        Ok(read.map_or_else(|error| (None, Some(error.to_string())), |value| (Some(value.to_string()), None)))
    })?;
    module.set("decode", decode)?;
    module.set("encode", encode)?;
    Ok(module)
}

/// A value as Lua has it. Lists get the metatable `lists`, by which an empty one stays a list.
fn to_lua(lua: &Lua, lists: &Table, value: &Value) -> mlua::Result<mlua::Value> {
    Ok(match value {
        Value::Null => mlua::Value::Nil,
        Value::Bool(value) => mlua::Value::Boolean(*value),
        Value::Number(number) => mlua::Value::Number(exact(number)?),
        Value::String(text) => mlua::Value::String(lua.create_string(text)?),
        Value::Array(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for (position, item) in items.iter().enumerate() {
                table.raw_set(position + 1, to_lua(lua, lists, item)?)?;
            }
            table.set_metatable(Some(lists.clone()))?;
            mlua::Value::Table(table)
        }
        Value::Object(members) => {
            let table = lua.create_table_with_capacity(0, members.len())?;
            for (name, member) in members {
                table.raw_set(name.as_str(), to_lua(lua, lists, member)?)?;
            }
            mlua::Value::Table(table)
        }
    })
}

/// A number as Lua has it, where that changes nothing.
fn exact(number: &Number) -> mlua::Result<f64> {
    let whole = number.as_i64().map(i64::unsigned_abs).or_else(|| number.as_u64());
    match number.as_f64() {
        Some(value) if whole.is_none_or(|whole| whole <= EXACT) => Ok(value),
        _ => Err(failure(format!("Lua can't hold the number {number}"))),
    }
}

/// Reads values of Lua, without calling anything of the script.
struct Reader<'a> {
    /// The metatable of lists.
    lists: &'a Table,
    /// How much may still be read: a small table may stand for a huge value.
    left: usize,
}

impl Reader<'_> {
    fn spend(&mut self, size: usize) -> mlua::Result<()> {
        self.left = self.left.checked_sub(size).ok_or_else(|| failure("its value is too large"))?;
        Ok(())
    }

    fn value(&mut self, value: &mlua::Value, depth: usize) -> mlua::Result<Value> {
        self.spend(1)?;
        match value {
            mlua::Value::Nil => Ok(Value::Null),
            mlua::Value::Boolean(value) => Ok(Value::Bool(*value)),
            mlua::Value::Integer(number) => Ok(Value::from(*number)),
            mlua::Value::Number(number) => {
                let read = Number::from_f64(*number);
                read.map(Value::Number).ok_or_else(|| failure(format!("JSON has no number {number}")))
            }
            mlua::Value::String(text) => self.text(text).map(Value::String),
            mlua::Value::Table(table) => self.table(table, depth),
            other => Err(failure(format!("JSON has no {}", other.type_name()))),
        }
    }

    fn text(&mut self, text: &LuaString) -> mlua::Result<String> {
        let bytes = text.as_bytes();
        self.spend(bytes.len())?;
        String::from_utf8(bytes.to_vec()).map_err(|_| failure("a text is not UTF-8"))
    }

    /// A list where the keys are 1 to n, an object where they are texts. An empty table is an object, unless it was
    /// read from a list.
    fn table(&mut self, table: &Table, depth: usize) -> mlua::Result<Value> {
        let depth = depth.checked_sub(1).ok_or_else(|| failure("its tables nest too deeply"))?;
        let (mut items, mut members) = (BTreeMap::new(), BTreeMap::new());
        for pair in table.pairs::<mlua::Value, mlua::Value>() {
            let (key, value) = pair?;
            let value = self.value(&value, depth)?;
            match key {
                mlua::Value::Integer(position) => drop(items.insert(position, value)),
                mlua::Value::String(name) => drop(members.insert(self.text(&name)?, value)),
                other => return Err(failure(format!("JSON has no {} as a key", other.type_name()))),
            }
        }
        let is_list =
            !items.is_empty() || members.is_empty() && table.metatable().as_ref() == Some(self.lists);
        if !is_list {
            return Ok(Value::Object(Map::from_iter(members)));
        }
        if !members.is_empty() || !items.keys().copied().eq(1..=items.len() as mlua::Integer) {
            return Err(failure("a table is neither a list nor an object"));
        }
        Ok(Value::Array(items.into_values().collect()))
    }
}
