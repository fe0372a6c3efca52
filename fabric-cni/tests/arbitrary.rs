//! Whatever arrives, the answer is a named error or a result, never a panic.

use fabric_cni::args::Args;
use fabric_cni::conf::Document;
use fabric_cni::env::Command;
use fabric_cni::protocol::{decode_answer, decode_request};
use fabric_cni::{Code, Error};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const COMMANDS: [Command; 5] = [Command::Add, Command::Del, Command::Check, Command::Gc, Command::Status];

fn read(bytes: &[u8], command: Command) -> Result<(), Error> {
    Document::read(bytes)?.check(command).map(|_| ())
}

/// Values that a field might have.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop_oneof!["[a-z0-9.:/-]{0,12}", Just("10.0.0.9/24".to_owned()), Just("1.1.0".to_owned())]
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        let keys = prop_oneof![
            "[a-z]{1,4}",
            Just("interfaces".to_owned()),
            Just("ips".to_owned()),
            Just("cni".to_owned())
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(keys, inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// A good configuration in which one field, the one that is named, is anything.
fn configuration() -> impl Strategy<Value = (&'static str, Value)> {
    let field = prop::sample::select(vec![
        "cniVersion",
        "name",
        "type",
        "socket",
        "mtu",
        "ipam",
        "dns",
        "args",
        "runtimeConfig",
        "prevResult",
        "capabilities",
        "cni.dev/valid-attachments",
        "other",
    ]);
    (field, value()).prop_map(|(field, value)| {
        let mut conf = json!({"cniVersion": "1.1.0", "name": "fabric", "type": "fabric-cni"});
        conf[field] = value;
        (field, conf)
    })
}

proptest! {
    #[test]
    fn bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), text in "\\PC{0,80}") {
        for command in COMMANDS {
            if let Err(error) = read(&bytes, command) {
                prop_assert!(!error.details.is_empty());
            }
        }
        let _ = (decode_request(&bytes), decode_answer(&bytes));
        if let Err(error) = text.parse::<Args>() {
            prop_assert_eq!(error.code, Code::ENVIRONMENT);
        }
    }

    #[test]
    fn an_error_of_the_configuration_names_its_field((field, conf) in configuration()) {
        for command in COMMANDS {
            if let Err(error) = read(conf.to_string().as_bytes(), command) {
                // CHECK and GC need fields that this configuration may lack.
                let named = [field, "prevResult is missing", "cni.dev/valid-attachments is missing"];
                prop_assert!(named.iter().any(|words| error.details.contains(words)), "{}: {}", conf, error);
                prop_assert!(matches!(error.code, Code::VERSION | Code::UNSUPPORTED_FIELD | Code::DECODE | Code::CONFIG));
            }
        }
    }
}
