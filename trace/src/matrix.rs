//! `fabric-trace matrix`: all pods against all pods.
//!
//! A row is asked and printed before the next: what is held is one row, however many pods
//! there are.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::net::IpAddr;

use fabric_api::verdict::{PodAddresses, Traffic};
use serde::Serialize;

use crate::args::{MatrixArgs, TableFormat};
use crate::cluster::Cluster;
use crate::csv_form;
use crate::error::TraceError;
use crate::outcome::Exit;
use crate::progress::Progress;
use crate::sink::{Paint, Sink};
use crate::table::{Matrix, Party, count};
use crate::truth;

/// Asks and prints.
///
/// # Errors
/// Where nobody answers, or the answers cannot be written.
pub fn run(args: &MatrixArgs) -> Result<Exit, TraceError> {
    let traffic = args.sent.traffic()?;
    let cluster = Cluster::open(&args.source)?;
    cluster.complain();
    let parties = parties(cluster.pods()?, &args.ip);
    let mut matrix = Matrix::new(cluster, parties, traffic, args.family);
    let mut sink = Sink::stdout();
    match args.output {
        TableFormat::Text => truth::print(&mut matrix, Paint::stdout(), &mut sink)?,
        TableFormat::Csv => csv(&mut matrix, &mut sink)?,
        TableFormat::Json => json(&mut matrix, &mut sink)?,
    }
    if sink.is_open() {
        matrix.remark();
    }
    Ok(Exit::Good)
}

/// The pods that have an address, and the other addresses; who has none is told.
fn parties(pods: Vec<PodAddresses>, others: &[IpAddr]) -> Vec<Party> {
    let (with, without): (Vec<_>, Vec<_>) = pods.into_iter().partition(|pod| !pod.addresses.is_empty());
    if let Some(first) = without.first() {
        let more = without.len() - 1;
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        eprintln!("fabric-trace: left out, without an address: {}{more}", first.pod);
    }
    let pods = with.into_iter().map(|pod| Party { name: pod.pod, addresses: pod.addresses });
    let others: BTreeSet<_> = others.iter().collect();
    let others =
        others.into_iter().map(|address| Party { name: address.to_string(), addresses: vec![*address] });
    pods.chain(others).collect()
}

/// A verdict by its letter; None where there is no conversation.
fn verdict(letter: u8) -> Option<&'static str> {
    match letter {
        b'a' => Some("allow"),
        b'd' => Some("deny"),
        _ => None,
    }
}

/// Hands every answer to `take`, in the order of from, to and traffic, as long as somebody reads.
fn each(
    matrix: &mut Matrix,
    mut take: impl FnMut(&str, &str, Traffic, &'static str) -> io::Result<bool>,
) -> Result<(), TraceError> {
    let traffic = matrix.traffic.clone();
    let all = matrix.parties.len();
    let mut progress = Progress::new(count(all));
    for from in 0..all {
        let rows = matrix.row(from, 0..all, &traffic)?;
        progress.step();
        let Some(opener) = matrix.parties.get(from) else { continue };
        for (place, to) in matrix.parties.iter().enumerate() {
            for (traffic, row) in traffic.iter().zip(&rows) {
                let Some(verdict) = row.get(place).copied().and_then(verdict) else { continue };
                if !take(&opener.name, &to.name, *traffic, verdict).map_err(TraceError::Write)? {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

fn csv(matrix: &mut Matrix, sink: &mut Sink) -> Result<(), TraceError> {
    let wrong = |error: csv::Error| TraceError::Write(error.into());
    let mut writer = csv_form::writer(sink).map_err(wrong)?;
    each(matrix, |from, to, traffic, verdict| {
        let port = traffic.port().map(|port| port.to_string()).unwrap_or_default();
        writer.write_record([from, to, traffic.protocol().as_str(), &port, verdict])?;
        Ok(writer.get_ref().is_open())
    })?;
    writer.flush().map_err(TraceError::Write)
}

/// An answer in JSON.
#[derive(Serialize)]
struct Printed<'a> {
    from: &'a str,
    to: &'a str,
    #[serde(flatten)]
    traffic: Traffic,
    verdict: &'a str,
}

fn json(matrix: &mut Matrix, sink: &mut Sink) -> Result<(), TraceError> {
    sink.write_all(b"{\"answers\":[").map_err(TraceError::Write)?;
    let mut first = true;
    each(matrix, |from, to, traffic, verdict| {
        sink.write_all(if first { b"\n  " } else { b",\n  " })?;
        first = false;
        serde_json::to_writer(&mut *sink, &Printed { from, to, traffic, verdict })?;
        Ok(sink.is_open())
    })?;
    writeln!(sink, "\n]}}").and_then(|()| sink.flush()).map_err(TraceError::Write)
}
