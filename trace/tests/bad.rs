//! What cannot be answered, and what is said of it.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step fails the test")]

mod support;

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

use support::{Folder, TRACE, case, pods, run, run_with};

#[test]
fn a_bad_command_line_is_told_and_ends_with_two() {
    let folder = case("ports");
    for (words, says) in [
        (&["verdict", "a/client"][..], "required"),
        (&["verdict", "a/client", "b/s1"], "--tcp"),
        (&["verdict", "a/client", "b/s1", "--tcp", "0"], "1..=65535"),
        (&["verdict", "a/client", "b/s1", "--tcp", "65536"], "1..=65535"),
        (&["verdict", "a/client", "b/s1", "--tcp", "80", "--udp", "53"], "cannot be used with"),
        (&["verdict", "client", "b/s1", "--icmp"], "\"client\" is neither a pod nor an address"),
        (&["verdict", "a/client/x", "b/s1", "--icmp"], "\"a/client/x\" is neither"),
        (&["verdict", "a/client", "b/s1", "--icmp", "--family", "5"], "4 or 6"),
        (&["matrix"], "--tcp"),
        (&["matrix", "--tcp", "80,"], "--tcp"),
        (&["matrix", "--tcp", "80", "--ip", "10.0.0"], "10.0.0"),
        (&["check"], "QUESTIONS.csv"),
        (&["nothing"], "nothing"),
        (&[], "Usage"),
    ] {
        let ran =
            if words.is_empty() { run(words) } else { run(&[words, &["--manifests", &folder]].concat()) };
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{words:?}");
        assert!(ran.err.contains(says), "{words:?}: {}", ran.err);
    }
    let both = run(&["lint", "--manifests", &folder, "--socket", "x"]);
    assert_eq!(both.code, 2, "an agent or manifests");
}

#[test]
fn an_end_without_an_answer_is_told() {
    let folder = Folder::new();
    folder.write(
        "a.yaml",
        pods("a", &[("four", "10.0.0.1"), ("six", "fd00::1"), ("both", "10.0.0.2 fd00::2")]),
    );
    folder.write("b.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {namespace: a, name: done}\nspec: {nodeName: n1}\nstatus: {phase: Succeeded, podIPs: [{ip: 10.0.0.9}]}\n---\napiVersion: v1\nkind: Pod\nmetadata: {namespace: a, name: fresh}\nspec: {nodeName: n1}\n");
    for (from, to, says) in [
        ("a/four", "a/gone", "fabric-trace: there is no pod a/gone\n"),
        ("a/four", "a/done", "fabric-trace: pod a/done has finished and has no address any more\n"),
        ("a/fresh", "a/four", "fabric-trace: pod a/fresh has no address: neither a claim nor"),
        (
            "a/four",
            "a/six",
            "fabric-trace: a/four and a/six have no addresses of the same family: they cannot talk\n",
        ),
        ("10.0.0.1", "fd00::1", "10.0.0.1 and fd00::1 have no addresses of the same family"),
    ] {
        let ran = run(&["verdict", from, to, "--tcp", "80", "--manifests", &folder.path()]);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{from} {to}");
        assert!(ran.err.contains(says), "{}", ran.err);
    }
    let ran = run(&["verdict", "a/both", "a/four", "--icmp", "--family", "6", "--manifests", &folder.path()]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("a/both and a/four do not both have an IPv6 address: they cannot talk"),
        "{}",
        ran.err
    );

    let matrix = run(&["matrix", "--icmp", "-o", "csv", "--manifests", &folder.path()]);
    assert_eq!(matrix.code, 0);
    assert_eq!(matrix.out.lines().count(), 1 + 9 - 2, "{}", matrix.out);
    assert!(matrix.err.contains("left out, without an address: a/fresh\n"), "{}", matrix.err);
    assert!(matrix.err.contains("2 conversations cannot be"), "{}", matrix.err);
}

#[test]
fn a_bad_row_is_named_by_line_and_column_and_costs_no_other() {
    let folder = case("ports");
    let questions = "from,to,protocol,port,verdict\n\
                     a/client,b/s1,TCP,8080,allow\n\
                     client,b/s1,TCP,8080,allow\n\
                     a/client,b/s1,GRE,,allow\n\
                     a/client,b/s1,TCP,http,allow\n\
                     a/client,b/s1,TCP,,allow\n\
                     a/client,b/s1,ICMP,8,allow\n\
                     a/client,b/s1,TCP,0,allow\n\
                     a/client,b/s1,TCP,+80,allow\n\
                     a/client,b/s1,TCP,8080,yes\n\
                     a/client,b/s1,TCP,8080,allow,more\n\
                     a/client,b/gone,TCP,8080,allow\n\
                     a/client\n\
                     a/client,b/s1,TCP,9090,allow\n";
    let ran = run_with(&["check", "-", "--manifests", &folder, "-o", "csv"], questions);
    assert_eq!(ran.code, 2);
    assert_eq!(
        ran.out,
        "from,to,protocol,port,verdict\na/client,b/s1,TCP,8080,allow\na/client,b/s1,TCP,9090,deny\n"
    );
    for says in [
        "standard input:3: column 1 (from): \"client\" is neither a pod nor an address",
        "standard input:4: column 3 (protocol): \"GRE\" is no protocol that can be asked: TCP, UDP, SCTP or ICMP is wanted",
        "standard input:5: column 4 (port): \"http\" is no port: a number from 1 to 65535 is wanted",
        "standard input:6: column 4 (port): TCP wants a port",
        "standard input:7: column 4 (port): ICMP has no ports",
        "standard input:8: column 4 (port): 0 is no port",
        "standard input:9: column 4 (port): \"+80\" is no port",
        "standard input:10: column 5 (verdict): \"yes\" is no verdict: allow, deny or nothing is wanted",
        "standard input:11: 6 columns, where the header has 5",
        "standard input:12: there is no pod b/gone",
        "standard input:13: column 2 (to): \"\" is neither a pod nor an address",
        "standard input:14: a/client to b/s1, TCP 9090: deny, where allow is expected",
    ] {
        assert!(ran.err.contains(says), "{says}\n{}", ran.err);
    }
    let plain = run_with(&["check", "-", "--manifests", &folder], questions);
    assert!(
        plain.out.ends_with("standard input: 2 answered, 1 of 2 as expected, 11 without an answer\n"),
        "{}",
        plain.out
    );
}

#[test]
fn a_bad_header_is_told() {
    let folder = case("ports");
    for (header, says) in [
        ("", "standard input:1: there is nothing in it; the header from,to,protocol,port,verdict is wanted"),
        ("a/client,b/s1,TCP,80,allow\n", "standard input:1: column 1 is \"a/client\""),
        ("from,to,protocol\n", "the column port is missing"),
        ("from,to,protocol,port,port\n", "the column port is there twice"),
        ("# x\nfrom,to,protocol,port,note\n", "standard input:2: column 5 is \"note\""),
    ] {
        let ran = run_with(&["check", "-", "--manifests", &folder], header);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{header}");
        assert!(ran.err.contains(says), "{says}: {}", ran.err);
    }
}

#[test]
fn bytes_that_are_no_text_are_told() {
    let folder = Folder::new();
    let mut questions = b"from,to,protocol,port,verdict\na/client,b/\xff,TCP,80,allow\n".to_vec();
    questions.extend(b"a/client,b/s1,TCP,8080,allow\n");
    let file = folder.write("questions.csv", questions);
    let ran = run(&["check", &file, "--manifests", &case("ports")]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains(&format!("{file}:2: column 2: not UTF-8")), "{}", ran.err);
    assert!(ran.out.ends_with("1 answered, 1 of 1 as expected, 1 without an answer\n"), "{}", ran.out);
}

#[test]
fn what_is_not_there_is_told() {
    let empty = Folder::new();
    let (none, missing) = (empty.path(), format!("{}/missing", empty.path()));
    for (words, says) in [
        (["lint", "--manifests", &missing], format!("fabric-trace: {missing}: No such file or directory")),
        (
            ["lint", "--manifests", &none],
            format!("fabric-trace: {none}: no manifests there: files that end in"),
        ),
        (["lint", "--socket", &missing], format!("fabric-trace: {missing}: no agent answers there")),
    ] {
        let ran = run(&words);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{words:?}");
        assert!(ran.err.starts_with(&says), "{}", ran.err);
    }
    let ran = run(&["check", &missing, "--manifests", &case("ports")]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.starts_with(&format!("fabric-trace: {missing}: No such file")), "{}", ran.err);
    let ran = run(&["check", "-", "--socket", &missing]);
    assert_eq!(ran.code, 2, "{}", ran.err);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let folder = Folder::new();
    let names: Vec<_> = (1..=120).map(|n| (format!("pod-{n}"), format!("10.0.0.{n}"))).collect();
    let listed: Vec<_> = names.iter().map(|(name, ip)| (name.as_str(), ip.as_str())).collect();
    folder.write("pods.yaml", pods("many", &listed));
    for form in ["text", "csv", "json"] {
        let mut child = Command::new(TRACE)
            .args(["matrix", "--tcp", "80,81,82", "-o", form, "--manifests", &folder.path()])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::with_capacity(16, child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert!(!line.is_empty());
        drop(out);
        let mut err = String::new();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert_eq!((child.wait().unwrap().code(), err.as_str()), (Some(0), ""), "{form}");
    }
}
