#![allow(clippy::expect_used, reason = "a failed step fails the test")]

use super::super::daemon::Daemon;
use super::*;

#[test]
fn answers_are_in_the_order_of_what_was_asked() {
    let daemon = Daemon::start(|_, parameters| parameters.concat());
    let mut control = Control::new(daemon.folder(), Duration::from_secs(5));
    for count in [0, 1, PIPELINE, PIPELINE + 1, 3 * PIPELINE * CLIENTS + 7] {
        let parameters: Vec<Vec<String>> = (0..count).map(|number| vec![number.to_string()]).collect();
        let answers = control.calls("say", parameters.clone()).expect("answers");
        let said: Vec<Vec<String>> = answers.into_iter().flatten().map(|answer| vec![answer]).collect();
        assert_eq!(said, parameters);
    }
    assert_eq!(control.clients.len(), CLIENTS);
    assert_eq!(control.call("say", &["word".to_owned()]).ok(), Some("word".to_owned()));
}
