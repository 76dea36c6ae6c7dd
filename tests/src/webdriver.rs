//! A browser by its driver: enough of the WebDriver protocol (W3C, 2018) to open a page, press keys and ask
//! what became of it.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

/// A page that takes longer is stuck.
const PATIENCE: Duration = Duration::from_secs(60);

/// A session with a headless browser; both end with it.
#[derive(Debug)]
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
}

impl Browser {
    pub fn start() -> Result<Self> {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("chromedriver does not start")?;
        let stdout = driver.stdout.take().context("its output is a pipe")?;
        let mut port = None;
        for line in BufReader::new(stdout).lines() {
            let line = line?;
            if let Some((_, rest)) = line.split_once("successfully on port ") {
                port = rest.trim_end_matches('.').parse().ok();
                break;
            }
        }
        let port = port.context("chromedriver names no port")?;
        let mut browser = Self {
            driver,
            port,
            session: String::new(),
        };
        // No sandbox: tests may run as root, and the page is our own.
        let args = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--window-size=1440,900",
        ];
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": { "args": args },
            "goog:loggingPrefs": { "browser": "ALL" },
        }}});
        let answer = browser.post("/session", &wanted)?;
        let id = answer["sessionId"]
            .as_str()
            .context("a session has an id")?;
        id.clone_into(&mut browser.session);
        Ok(browser)
    }

    pub fn open(&self, file: &Path) -> Result<()> {
        let url = format!("file://{}", file.display());
        self.ask("url", &json!({ "url": url })).map(drop)
    }

    /// What a script returns.
    pub fn script(&self, script: &str) -> Result<Value> {
        self.ask("execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Presses keys one after the other, whatever has the focus.
    pub fn keys(&self, keys: &str) -> Result<()> {
        let press = |key: char| {
            let key = key.to_string();
            [
                json!({ "type": "keyDown", "value": key }),
                json!({ "type": "keyUp", "value": key }),
            ]
        };
        let actions: Vec<Value> = keys.chars().flat_map(press).collect();
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": actions });
        self.ask("actions", &json!({ "actions": [keyboard] }))
            .map(drop)
    }

    /// Shows pages as a device of this width does.
    pub fn width(&self, width: u32) -> Result<()> {
        let device =
            json!({ "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600 });
        let command = json!({ "cmd": "Emulation.setDeviceMetricsOverride", "params": device });
        self.ask("goog/cdp/execute", &command).map(drop)
    }

    /// Messages of the console since the last time.
    pub fn console(&self) -> Result<Vec<String>> {
        let log = self.ask("se/log", &json!({ "type": "browser" }))?;
        let entries = log.as_array().cloned().unwrap_or_default();
        let text = |entry: &Value| entry["message"].as_str().unwrap_or_default().to_owned();
        Ok(entries.iter().map(text).collect())
    }

    /// What a script gives to its last argument, a function, sooner or later.
    pub fn awaited(&self, script: &str) -> Result<Value> {
        self.ask("execute/async", &json!({ "script": script, "args": [] }))
    }

    /// Shows pages as a reader's system asks for: `light` or `dark`.
    pub fn prefer(&self, scheme: &str) -> Result<()> {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        let params = json!({ "media": "", "features": features });
        let command = json!({ "cmd": "Emulation.setEmulatedMedia", "params": params });
        self.ask("goog/cdp/execute", &command).map(drop)
    }

    /// Shows pages as they are printed on paper of this width, until the next width and theme.
    pub fn paper(&self, width: u32) -> Result<()> {
        self.width(width)?;
        let command =
            json!({ "cmd": "Emulation.setEmulatedMedia", "params": { "media": "print" } });
        self.ask("goog/cdp/execute", &command).map(drop)
    }

    /// The page on A4 paper, as a PDF file.
    pub fn print(&self, file: &Path) -> Result<()> {
        let paper = json!({ "page": { "width": 21.0, "height": 29.7 }, "background": true });
        let pdf = self.ask("print", &paper)?;
        into_file(pdf.as_str().context("a PDF is a text")?, file)
    }

    /// The whole page as a PNG file, however long it is.
    pub fn picture(&self, file: &Path) -> Result<()> {
        let command =
            json!({ "cmd": "Page.captureScreenshot", "params": { "captureBeyondViewport": true } });
        let answer = self.ask("goog/cdp/execute", &command)?;
        into_file(
            answer["data"].as_str().context("a picture is a text")?,
            file,
        )
    }

    fn ask(&self, command: &str, body: &Value) -> Result<Value> {
        self.post(&format!("/session/{}/{command}", self.session), body)
    }

    fn post(&self, path: &str, body: &Value) -> Result<Value> {
        let mut line = TcpStream::connect(("127.0.0.1", self.port))?;
        let body = body.to_string();
        let length = body.len();
        write!(
            line,
            "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )?;
        let text = body_of(line).with_context(|| format!("the answer to {path}"))?;
        let value: Value = serde_json::from_slice(&text).context("the body is JSON")?;
        let value = &value["value"];
        if let Some(error) = value["error"].as_str() {
            bail!("{path}: {error}: {}", value["message"]);
        }
        Ok(value.clone())
    }
}

/// The body of an answer. The driver leaves its connections open, whatever it is asked, so the length counts.
fn body_of(line: TcpStream) -> Result<Vec<u8>> {
    line.set_read_timeout(Some(PATIENCE))?;
    let mut answer = BufReader::new(line);
    let mut length = None;
    loop {
        let mut head = String::new();
        ensure!(answer.read_line(&mut head)? > 0, "it ends in its head");
        let head = head.trim_end();
        if head.is_empty() {
            break;
        }
        if let Some((name, value)) = head.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = Some(value.trim().parse()?);
        }
    }
    let mut body = vec![0; length.context("it tells no length")?];
    answer.read_exact(&mut body)?;
    Ok(body)
}

/// Writes what comes as base64 into a file.
fn into_file(base64: &str, file: &Path) -> Result<()> {
    let mut decoder = Command::new("base64")
        .arg("--decode")
        .stdin(Stdio::piped())
        .stdout(File::create(file)?)
        .spawn()
        .context("base64 does not start")?;
    let mut stdin = decoder.stdin.take().context("its input is a pipe")?;
    stdin.write_all(base64.as_bytes())?;
    drop(stdin);
    ensure!(decoder.wait()?.success(), "this is no base64");
    Ok(())
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = TcpStream::connect(("127.0.0.1", self.port)).and_then(|mut line| {
            let path = format!("/session/{}", self.session);
            write!(
                line,
                "DELETE {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
            )?;
            body_of(line).map_err(std::io::Error::other)
        });
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
