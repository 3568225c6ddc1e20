use std::borrow::Cow;
use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::*;

/// What a document comes to, by types that use every part of the reader.
fn compare(text: &str) {
    compare_as::<Value, _>(text, |value| value);
    compare_as::<&RawValue, _>(text, RawValue::get);
    compare_as::<IgnoredAny, _>(text, |_| ());
    compare_as::<Lens<'_>, _>(text, |lens| lens);
    compare_as::<Vec<BTreeMap<Cow<'_, str>, Option<&RawValue>>>, _>(text, |list| {
        list.into_iter().map(texts).collect::<Vec<_>>()
    });
    compare_as::<Vec<Option<u8>>, _>(text, |list| list);
    compare_as::<(bool, String), _>(text, |pair| pair);
    compare_as::<f64, _>(text, f64::to_bits);
    compare_as::<i64, _>(text, |number| number);
    compare_as::<String, _>(text, |text| text);
    compare_as::<Choice, _>(text, |choice| choice);
    compare_as::<Vec<Spanned<'_, Value>>, _>(text, |list| {
        list.into_iter().map(|spanned| (spanned.text, spanned.value)).collect::<Vec<_>>()
    });
}

fn texts<'a>(members: BTreeMap<Cow<'a, str>, Option<&'a RawValue>>) -> Vec<(Cow<'a, str>, Option<&'a str>)> {
    members.into_iter().map(|(key, value)| (key, value.map(RawValue::get))).collect()
}

fn compare_as<'a, T: Deserialize<'a>, R: PartialEq + fmt::Debug>(text: &'a str, result: impl Fn(T) -> R) {
    let authority = serde_json::from_str::<T>(text).map(&result).map_err(|error| error.to_string());
    if let Ok(value) = plain::<T>(text) {
        assert_eq!(Ok(result(value)), authority, "{text}");
    }
    assert_eq!(from_str::<T>(text).map(&result).map_err(|error| error.to_string()), authority, "{text}");
}

#[derive(Debug, PartialEq, Deserialize)]
struct Lens<'a> {
    #[serde(borrow)]
    a: Option<Cow<'a, str>>,
    b: Option<Box<Lens<'a>>>,
    #[serde(borrow, default)]
    c: Vec<&'a str>,
}

#[derive(Debug, PartialEq, Deserialize)]
enum Choice {
    One,
    Two(u8),
}

#[test]
fn plain_documents_need_no_other_reader() {
    let text = r#" {"a":"text","b":{"c":["x"],"other":[{"k:{\"name\":\"\u00e9\"}":-1.5e+7,"e":{},"l":[]},true,false,null,0]}} "#;
    assert_eq!(plain::<Lens<'_>>(text).unwrap().b.unwrap().c, ["x"]);
    assert!(matches!(plain::<Cow<'_, str>>(r#""a\nb""#).unwrap().as_ref(), "a\nb"));
    assert_eq!(plain::<Vec<&RawValue>>("[1.50, {\"a\" : 2}]").unwrap().last().unwrap().get(), "{\"a\" : 2}");
    assert_eq!(plain::<Vec<Spanned<'_, u8>>>("[ 7 ]").unwrap().first().unwrap().text, "7");
    assert_eq!(
        plain::<(u64, bool, Option<u8>)>("[18446744073709551615,true,null]").unwrap(),
        (u64::MAX, true, None)
    );
}

#[test]
fn documents_on_the_edge_of_the_grammar_are_read_alike() {
    for text in [
        "",
        " ",
        "nul",
        "null",
        "nullx",
        "true",
        "tru",
        "falsey",
        "-",
        "-0",
        "0",
        "00",
        "01",
        "1.",
        "1.0",
        "1e",
        "1e5",
        "1E-5",
        "1e400",
        "-1",
        "18446744073709551616",
        ".5",
        "+1",
        "[",
        "]",
        "[]",
        "[ ]",
        "[,]",
        "[1,]",
        "[1,,2]",
        "[1 2]",
        "[1]]",
        "[1}",
        "{",
        "}",
        "{}",
        "{ }",
        "{,}",
        r#"{"a"}"#,
        r#"{"a":}"#,
        r#"{"a":1,}"#,
        r#"{"a":1 "b":2}"#,
        r#"{a:1}"#,
        r#"{"a":1]"#,
        r#"{"a":null}"#,
        r#"{"a":"x","a":"y"}"#,
        r#"{"a":"x","b":{"c":["\ud800"]}}"#,
        r#"["x"#,
        r#""\x""#,
        r#""\u12""#,
        r#""\u12G4""#,
        r#""\ud83d\ude00""#,
        r#""\ud800""#,
        "\"\t\"",
        "\"\u{7f}é\"",
        "\"12345678\t\"",
        "\"One\"",
        r#"{"Two":2}"#,
        r#"{"Two":2,"One":1}"#,
        "{\"\\u0061\":\"x\"}",
        "[{\"\":null}]",
        "\u{feff}1",
        "\u{a0}1",
        r#"[true,"x"]"#,
        r#"[true,"x",1]"#,
        r#"["\"]"#,
        r#"{"b":[]}"#,
        r#"[null,"y",["z"]]"#,
    ] {
        compare(text);
    }
}

#[test]
fn depth_has_no_limit_but_that_of_the_authority() {
    for depth in [10, 47, 48, 49, 62, 63, 64, 65, 127, 128, 129, 5_000] {
        let nest = "[".repeat(depth) + &"]".repeat(depth);
        compare_as::<&RawValue, _>(&nest, RawValue::get);
        compare_as::<IgnoredAny, _>(&nest, |_| ());
        compare_as::<Value, _>(&nest, |value| value);
        compare_as::<Lens<'_>, _>(&format!("{{\"x\":{nest}}}"), |lens| lens);
    }
}

/// Text that is almost JSON more often than not.
fn almost_json() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "{", "}", "[", "]", ",", ":", "\"", "\"a\"", "\"a\":", "\"b\":", "\"c\":", "null", "true", "1", "-",
        "0", ".", "e", "\\", "\\u00", "\\\"", " ", "\n", "\u{1}", "é", "12345678", "Two",
    ]);
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// JSON, with the keys of [`Lens`] more often than others.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[abc]|.{0,9}", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_text_is_read_as_the_authority_reads_it(text in almost_json()) {
        compare(&text);
    }

    #[test]
    fn any_document_is_read_as_the_authority_reads_it(value in any_json(), end in any::<prop::sample::Index>()) {
        let text = value.to_string();
        compare(&text);
        compare(&serde_json::to_string_pretty(&value).unwrap());
        let mut end = end.index(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        compare(&text[..end]);
    }

    #[test]
    fn the_first_special_byte_is_found(text in "[ -~é\\\\\"\u{0}-\u{20}]{0,40}") {
        let special = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
        let position = text.bytes().position(|byte| special(&byte)).unwrap_or(text.len());
        prop_assert_eq!(from_special(text.as_bytes()), &text.as_bytes()[position..]);
    }
}
