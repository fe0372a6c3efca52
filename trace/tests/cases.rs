//! The labelled cases, asked with every command.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step fails the test")]

mod support;

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;
use support::{Folder, case, cases, run, run_with, text};

/// Columns of the rows of a CSV text, without the header.
fn rows(csv: &str) -> Vec<[String; 5]> {
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(csv.as_bytes());
    assert_eq!(reader.headers().unwrap(), vec!["from", "to", "protocol", "port", "verdict"]);
    let rows = reader.records().map(|row| row.unwrap());
    rows.map(|row| std::array::from_fn(|at| row[at].to_owned())).collect()
}

#[test]
fn every_question_is_answered_as_it_is_labelled() {
    for case in cases() {
        let (folder, questions) = (text(&case), text(&case.join("questions.csv")));
        let ran = run(&["check", &questions, "--manifests", &folder]);
        let number = rows(&fs::read_to_string(&questions).unwrap()).len();
        let wanted = format!("{questions}: {number} answered, {number} of {number} as expected\n");
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, wanted.as_str(), ""));
    }
}

#[test]
fn answers_in_csv_are_questions_again() {
    for case in cases() {
        let (folder, questions) = (text(&case), text(&case.join("questions.csv")));
        let answers = run(&["check", &questions, "--manifests", &folder, "-o", "csv"]);
        assert_eq!((answers.code, answers.err.as_str()), (0, ""));
        assert_eq!(rows(&answers.out), rows(&fs::read_to_string(&questions).unwrap()), "{folder}");
        let again = run_with(&["check", "-", "--manifests", &folder, "-o", "csv"], &answers.out);
        assert_eq!((again.code, &again.out), (0, &answers.out));
    }
}

#[test]
fn answers_come_without_expectations_too() {
    let folder = case("ports");
    let questions =
        "from,to,protocol,port,verdict\n# a comment\na/client,b/s1,tcp,8080,\na/client , b/s1,Tcp, 9090,\n";
    let csv = run_with(&["check", "-", "--manifests", &folder, "-o", "csv"], questions);
    assert_eq!(csv.code, 0, "{csv:?}");
    assert_eq!(
        csv.out,
        "from,to,protocol,port,verdict\na/client,b/s1,tcp,8080,allow\na/client,b/s1,Tcp,9090,deny\n"
    );
    let plain = run_with(&["check", "-", "--manifests", &folder], questions);
    assert_eq!(
        plain.out,
        "standard input:3: a/client to b/s1, TCP 8080: allow\n\
         standard input:4: a/client to b/s1, TCP 9090: deny\n\
         standard input: 2 answered, 0 of 0 as expected\n"
    );
    let four = run_with(
        &["check", "-", "--manifests", &folder, "-o", "csv"],
        "to,from,port,protocol\nb/s1,a/client,8080,TCP\n",
    );
    assert_eq!(four.out, "from,to,protocol,port,verdict\na/client,b/s1,TCP,8080,allow\n", "{}", four.err);
}

#[test]
fn what_differs_is_named_with_its_reasons() {
    let folder = Folder::new();
    let cluster = case("tenants");
    let questions = "from,to,protocol,port,verdict\n\
                     red1/a,red2/b,TCP,80,deny\n\
                     red1/a,red2/b,TCP,81,deny\n\
                     blue/c,red2/b,TCP,80,allow\n";
    let file = folder.write("questions.csv", questions);
    let ran = run(&["check", &file, "--manifests", &cluster]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.out.starts_with(&format!("{file}:2: red1/a to red2/b, TCP 80: allow, where deny is expected\n")),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("ingress: NetworkPolicy red2/b-in: ingress rule 1\n"), "{}", ran.out);
    assert!(ran.out.contains("tenant blue does not meet tenant red\n"), "{}", ran.out);
    assert!(ran.out.ends_with(&format!("{file}: 3 answered, 1 of 3 as expected\n")), "{}", ran.out);

    let csv = run(&["check", &file, "--manifests", &cluster, "-o", "csv"]);
    assert_eq!(csv.code, 1);
    assert_eq!(rows(&csv.out).len(), 3);
    assert!(csv.err.contains(":4: blue/c to red2/b, TCP 80: deny, where allow is expected"), "{}", csv.err);

    let json = run(&["check", &file, "--manifests", &cluster, "-o", "json"]);
    let json = json.json();
    assert_eq!(json["answers"][0]["verdict"], "allow");
    assert_eq!(json["answers"][0]["expected"], "deny");
    assert_eq!(json["answers"][2]["line"], 4);
    assert_eq!(
        (&json["answered"], &json["expected"], &json["differing"], &json["unanswered"]),
        (&Value::from(3), &Value::from(3), &Value::from(2), &Value::from(0))
    );
}

/// The words of a question for `verdict`.
fn verdict_words(row: &[String; 5]) -> Vec<String> {
    let [from, to, protocol, port, _] = row;
    let mut words = vec!["verdict".to_owned(), from.clone(), to.clone()];
    words.push(format!("--{}", protocol.to_lowercase()));
    words.extend((!port.is_empty()).then(|| port.clone()));
    words
}

#[test]
fn verdict_says_so_by_its_exit_code_and_explains() {
    for case in cases() {
        let folder = text(&case);
        for row in rows(&fs::read_to_string(case.join("questions.csv")).unwrap()) {
            let mut words = verdict_words(&row);
            words.extend(["-o", "json", "--manifests", &folder].map(str::to_owned));
            let words: Vec<_> = words.iter().map(String::as_str).collect();
            let ran = run(&words);
            assert_eq!((ran.code, ran.err.as_str()), (i32::from(row[4] == "deny"), ""), "{row:?}");
            let report = ran.json();
            assert_eq!(report["verdict"], row[4], "{row:?}");
            check_report(&report, &row);
        }
    }
}

/// The documented fields of a report.
fn check_report(report: &Value, row: &[String; 5]) {
    for (party, name) in [("from", &row[0]), ("to", &row[1])] {
        assert_eq!(report[party]["end"], **name);
        assert!(report[party]["address"].is_string() && report[party]["resident"].is_string(), "{report}");
    }
    assert_eq!(report["protocol"], row[2]);
    assert_eq!(
        report["port"].as_u64().map(|port| port.to_string()),
        Some(row[3].clone()).filter(|port| !port.is_empty())
    );
    let sides: Vec<&Value> = ["egress", "ingress"].iter().filter_map(|side| report.get(side)).collect();
    assert!(!sides.is_empty(), "one end at least is a pod: {report}");
    let denies = sides.iter().any(|side| side["verdict"] == "deny");
    assert_eq!(denies, row[4] == "deny", "{report}");
    for side in sides {
        assert!(side["because"].is_string() && side["region"].is_string(), "{side}");
        let steps = side["steps"].as_array().unwrap();
        assert_eq!(steps.iter().filter(|step| step["decides"] == true).count(), 1, "{side}");
        for step in steps {
            assert!(step["stage"].is_string() && step["reason"].is_string(), "{step}");
            let outcome = step["outcome"].as_str().unwrap();
            assert!(["match", "miss", "not-applicable"].contains(&outcome), "{step}");
        }
    }
}

#[test]
fn verdict_in_text_begins_with_the_answer() {
    let ran = run(&["verdict", "red1/a", "red2/b", "--tcp", "81", "--manifests", &case("tenants")]);
    assert_eq!(ran.code, 1);
    let mut lines = ran.out.lines();
    assert_eq!(lines.next(), Some("denied: red1/a to red2/b, TCP 81"));
    assert_eq!(lines.next(), Some("  from 10.10.3.1, Pod red1/a on n1"));
    assert_eq!(lines.next(), Some("  to   10.10.3.2, Pod red2/b on n2"));
    assert!(ran.out.contains("\negress of red1/a: allowed, "), "{}", ran.out);
    assert!(ran.out.contains("\ningress of red2/b: denied, NetworkPolicy red2/b-in"), "{}", ran.out);
    assert!(!ran.out.contains('\u{1b}'), "no colours in a pipe");
    let outside = run(&["verdict", "198.51.100.7", "red1/a", "--icmp", "--manifests", &case("tenants")]);
    assert!(outside.out.contains("\negress: 198.51.100.7 has no rules of its own\n"), "{}", outside.out);
}

#[test]
fn the_matrix_says_the_same() {
    for case in cases() {
        let folder = text(&case);
        let questions = fs::read_to_string(case.join("questions.csv")).unwrap();
        let mut words: Vec<String> =
            ["matrix", "-o", "csv", "--manifests", &folder].map(str::to_owned).to_vec();
        let rows = rows(&questions);
        for [from, to, protocol, port, _] in &rows {
            words.extend([format!("--{}", protocol.to_lowercase()), port.clone()]);
            let addresses = [from, to].into_iter().filter(|end| !end.contains('/'));
            words.extend(addresses.flat_map(|end| ["--ip".to_owned(), end.clone()]));
        }
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let ran = run(&words);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let answers: BTreeMap<_, _> = self::rows(&ran.out)
            .into_iter()
            .map(|[from, to, protocol, port, verdict]| ((from, to, protocol, port), verdict))
            .collect();
        for [from, to, protocol, port, verdict] in rows {
            let key = (from, to, protocol, port);
            assert_eq!(answers.get(&key), Some(&verdict), "{key:?} of {folder}");
        }
        let again = run_with(&["check", "-", "-o", "csv", "--manifests", &folder], &ran.out);
        assert_eq!((again.code, &again.out), (0, &ran.out));
    }
}

#[test]
fn the_matrix_comes_in_three_forms() {
    let folder = case("tenants");
    let words = ["matrix", "--tcp", "81", "--icmp", "--ip", "198.51.100.7", "--manifests", &folder];
    let plain = run(&words);
    assert_eq!((plain.code, plain.err.as_str()), (0, ""));
    let table = "
TCP 81             1 2 3 4 5 6 7 8 9
1 blue/c           . . . X X X X . .
2 blue/hostpod     . . . . . . X . .
3 kube-system/dns  . . . . . . X . .
4 plain/d          X . . . . X X . .
5 plain2/e         X . . . . X X . .
6 red1/a           X . . X X . X . .
7 red2/b           X . . X X . . . .
8 tools/t          . . . . . . X . .
9 198.51.100.7     . . . . . . X . .
";
    assert!(plain.out.contains(table), "{}", plain.out);
    let csv = run(&[&words[..], &["-o", "csv"]].concat());
    let json = run(&[&words[..], &["-o", "json"]].concat()).json();
    let of_json: Vec<[String; 5]> = json["answers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|answer| {
            let text = |field: &str| answer[field].as_str().unwrap().to_owned();
            let port = answer.get("port").map(ToString::to_string).unwrap_or_default();
            [text("from"), text("to"), text("protocol"), port, text("verdict")]
        })
        .collect();
    assert_eq!(rows(&csv.out), of_json);
    assert_eq!(of_json.len(), 9 * 9 * 2);
    assert!(csv.out.contains("\nred1/a,red2/b,ICMP,,deny\n"), "ICMP has an empty port");
}

#[test]
fn a_family_can_be_chosen_and_a_difference_is_told() {
    let folder = case("dualstack");
    let ask = |words: &[&str]| run(&[words, &["--manifests", &folder]].concat());
    let open = ask(&["verdict", "d/c", "d/s", "--tcp", "80"]);
    assert_eq!(open.code, 0);
    assert!(open.out.contains("over IPv6 it is denied: --family 6 tells why\n"), "{}", open.out);
    let six = ask(&["verdict", "d/c", "d/s", "--tcp", "80", "--family", "6"]);
    assert_eq!(six.code, 1);
    assert!(six.out.contains("  from fd00:10:4::1, Pod d/c on n1\n"), "{}", six.out);
    let json = ask(&["verdict", "d/c", "d/s", "--tcp", "80", "-o", "json"]).json();
    assert_eq!(json["overIpv6"], "deny");

    let matrix = ask(&["matrix", "--tcp", "80", "-o", "csv"]);
    assert!(matrix.out.contains("\nd/c,d/s,TCP,80,allow\n"), "{}", matrix.out);
    assert!(matrix.err.contains("have another verdict over IPv6"), "{}", matrix.err);
    let matrix = ask(&["matrix", "--tcp", "80", "-o", "csv", "--family", "6"]);
    assert!(matrix.out.contains("\nd/c,d/s,TCP,80,deny\n"), "{}", matrix.out);
    assert_eq!(matrix.err, "");

    let questions = "from,to,protocol,port,verdict\nd/c,d/s,TCP,80,allow\n";
    let check = run_with(&["check", "-", "--manifests", &folder], questions);
    assert_eq!(check.code, 0);
    assert!(check.err.contains(":2: d/c to d/s, TCP 80: allow over IPv4, deny over IPv6"), "{}", check.err);
    let check = run_with(&["check", "-", "--manifests", &folder, "--family", "6"], questions);
    assert_eq!(check.code, 1);
}

#[test]
fn an_address_of_a_pod_means_the_pod() {
    let folder = case("tenants");
    let ran = run(&["verdict", "10.10.3.3", "10.10.3.1", "--tcp", "80", "--manifests", &folder]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("  from 10.10.3.3, Pod blue/c on n1\n"), "{}", ran.out);
}

#[test]
fn shared_namespaces_are_those_of_the_node_file() {
    let folder = case("tenants");
    let ask = |words: &[&str]| {
        let verdict = ["verdict", "red1/a", "kube-system/dns", "--udp", "53", "--manifests", &folder];
        run(&[&verdict[..], words].concat()).code
    };
    assert_eq!(ask(&[]), 0);
    assert_eq!(ask(&["--shared-namespaces", "other,kube-system"]), 0);
    assert_eq!(ask(&["--shared-namespaces", "other"]), 1);
    assert_eq!(ask(&["--shared-namespaces", ""]), 1);
}
