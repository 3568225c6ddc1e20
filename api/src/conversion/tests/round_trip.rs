//! What holds for every object.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{convert, review};
use super::generate::{object, pair};
use super::{CONVERTED_FIELDS, flip, other_version, visible};

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn there_and_back_is_the_same_object(object in object()) {
        let there = flip(&object);
        let back = flip(&there);
        prop_assert_eq!(back, object, "through {}", there);
    }

    /// Whatever a client of the other version makes of the object, it reads back what it wrote.
    #[test]
    fn an_edit_wins_over_what_was_noted((object, edit) in pair()) {
        let mut edited = flip(&object);
        for part in ["spec", "status"] {
            match edit.get(part) {
                Some(part_of_edit) => edited[part] = part_of_edit.clone(),
                None => { edited.as_object_mut().unwrap().remove(part); }
            }
        }
        let stored = flip(&edited);
        prop_assert_eq!(visible(flip(&stored)), visible(edited), "through {}", stored);
    }

    #[test]
    fn only_labels_and_annotations_of_the_metadata_change(object in object()) {
        let strip = |mut object: Value| {
            let metadata = object["metadata"].as_object_mut().unwrap();
            metadata.remove("labels");
            metadata.remove("annotations");
            object["metadata"].clone()
        };
        prop_assert_eq!(strip(flip(&object)), strip(object));
    }

    #[test]
    fn an_untouched_template_keeps_its_text(object in object(), number in "[1-9][0-9]{0,30}\\.[0-9]{1,5}") {
        let part = format!("\"template2\":{{\"z\": {number},\"a\":[ ]}}");
        let text = object.to_string();
        let Some(head) = text.strip_suffix('}') else { return Ok(()) };
        let text = format!("{head},{part}}}");
        let version = other_version(object["apiVersion"].as_str().unwrap());
        let there = convert(&text, version).unwrap();
        prop_assert!(there.get().contains(&part));
    }

    #[test]
    fn any_bytes_get_an_answer(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let answer = review::answer(&body);
        prop_assert!(answer.status == 200 || answer.body.is_empty());
    }

    #[test]
    fn a_damaged_review_gets_an_answer(object in object(), place in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let version = other_version(object["apiVersion"].as_str().unwrap()).to_owned();
        let noted = flip(&object);
        let body = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "request": {"uid": "u", "desiredAPIVersion": version, "objects": [object, noted]}});
        let mut body = body.to_string().into_bytes();
        let place = place.index(body.len());
        body[place] = byte;
        let answer = review::answer(&body);
        prop_assert!(answer.status == 400 && answer.body.is_empty() || answer.status == 200);
        if answer.status == 200 {
            let answer: Value = serde_json::from_slice(&answer.body).unwrap();
            let failed = answer["response"]["result"]["status"] == "Failure";
            prop_assert_eq!(failed, answer["response"]["convertedObjects"].is_null());
        }
    }

    #[test]
    fn an_arbitrary_note_changes_nothing_visible(object in object(), (key, value) in ("[a-z]{1,8}", "[a-z]{0,4}"), depth in 0usize..3) {
        let mut path = vec![["spec", "status", "metadata"][depth].to_owned()];
        path.push(if depth == 2 { "labels".to_owned() } else { "template".to_owned() });
        path.push(key);
        let version = object["apiVersion"].as_str().unwrap();
        let note = json!({"version": other_version(version).split('/').nth(1), "set": [{"path": path, "value": value}]});
        let mut forged = object.clone();
        forged["metadata"]["annotations"][CONVERTED_FIELDS] = note.to_string().into();
        prop_assert_eq!(flip(&flip(&forged)), object);
    }
}
