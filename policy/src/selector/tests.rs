use super::*;

fn labels(text: &str) -> Labels {
    text.split_whitespace().filter_map(|pair| pair.split_once('=')).collect()
}

fn one(key: &str, operator: Operator) -> Selector {
    Selector { requirements: vec![Requirement { key: Name::from(key), operator }] }
}

fn values(text: &str) -> Vec<Name> {
    text.split_whitespace().map(Name::from).collect()
}

/// Selector, its spelling, the labels it selects, and those it does not.
fn table() -> Vec<(Selector, &'static str, &'static [&'static str], &'static [&'static str])> {
    vec![
        (Selector::everything(), "<all>", &["", "app=a", "app=a tier=1"], &[]),
        (
            one("app", Operator::In(values("a"))),
            "app=a",
            &["app=a", "app=a tier=1"],
            &["", "app=b", "application=a"],
        ),
        (one("app", Operator::In(values("a b"))), "app in (a,b)", &["app=a", "app=b"], &["", "app=c", "x=a"]),
        (
            one("app", Operator::NotIn(values("a b"))),
            "app notin (a,b)",
            &["", "app=c", "x=a"],
            &["app=a", "app=b"],
        ),
        (one("app", Operator::Exists), "app", &["app=a", "app="], &["", "x=app"]),
        (one("app", Operator::DoesNotExist), "!app", &["", "x=app"], &["app=a", "app="]),
    ]
}

#[test]
fn matches_as_its_operators_say() {
    for (selector, spelling, selected, others) in table() {
        assert_eq!(selector.to_string(), spelling);
        for text in selected {
            assert!(selector.matches(&labels(text)), "{selector} selects {text}");
        }
        for text in others {
            assert!(!selector.matches(&labels(text)), "{selector} does not select {text}");
        }
    }
}

#[test]
fn every_requirement_must_hold() {
    let requirements = [one("app", Operator::In(values("a"))), one("tier", Operator::DoesNotExist)]
        .into_iter()
        .flat_map(|selector| selector.requirements)
        .collect();
    let both = Selector { requirements };
    assert!(both.matches(&labels("app=a x=y")));
    assert!(!both.matches(&labels("app=a tier=1")));
    assert!(!both.matches(&labels("x=y")));
    assert_eq!(both.to_string(), "app=a,!tier");
}

#[test]
fn labels_are_sorted_and_the_later_of_two_stands() {
    let labels = Labels::from_iter([("b", "1"), ("a", "2"), ("b", "3")]);
    assert_eq!(labels.to_string(), "a=2,b=3");
    assert_eq!(labels.len(), 2);
    assert_eq!(labels.get("b"), Some(&Name::from("3")));
    assert_eq!(labels.get("c"), None);
}
