//! Rules of nftables, applied by its own program: one script is one transaction of the kernel.

use std::path::Path;
use std::process::Stdio;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// Runs `nft -f -` on a script.
///
/// # Errors
/// `nft` is missing, or does not accept the script; the text says what to do.
pub async fn run(nft: &Path, script: &str) -> Result<(), String> {
    let name = nft.display();
    let mut child = Command::new(nft)
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("cannot run {name}: {error}; install nftables"))?;
    if let Some(mut stdin) = child.stdin.take() {
        let written = stdin.write_all(script.as_bytes()).await;
        written.map_err(|error| format!("{name} does not read its input: {error}"))?;
    }
    let output = child.wait_with_output().await;
    let output = output.map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().next().unwrap_or("nothing said").to_owned();
    Err(format!("{name} failed ({}): {said}; is the kernel's nf_tables available?", output.status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let outcome = runtime.block_on(run(Path::new("/nonexistent/nft"), "flush ruleset"));
        let error = outcome.unwrap_err();
        assert!(error.contains("/nonexistent/nft") && error.contains("install nftables"), "{error}");
    }
}
