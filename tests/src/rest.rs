//! Flink's REST interface, as far as the tests use it.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};

/// Longest time for a job to be taken on a busy machine.
const POST_LIMIT: Duration = Duration::from_secs(60);

/// A job as the JobManager lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// 32 hexadecimal digits.
    pub id: String,
    /// Its name.
    pub name: String,
    /// `RUNNING`, `RESTARTING`, ...
    pub state: String,
    /// Each of its tasks runs, or has done its work while another runs: a source's reader that has no split ends.
    pub all_tasks_run: bool,
}

/// The REST endpoint of one JobManager.
pub struct Rest {
    base: String,
    agent: ureq::Agent,
}

impl Rest {
    /// The endpoint on a loopback port.
    pub fn new(port: u16) -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(Duration::from_secs(10)))
            .http_status_as_error(false)
            .max_idle_connections(0)
            .build();
        Self { base: format!("http://127.0.0.1:{port}"), agent: config.into() }
    }

    /// GET, answered by JSON.
    ///
    /// # Errors
    /// Where nobody answers, or with another status than 2xx.
    pub fn get(&self, path: &str) -> Result<Value> {
        let url = format!("{}{path}", self.base);
        let answer = self.agent.get(&url).call().with_context(|| url.clone())?;
        json_of(&url, answer)
    }

    /// POST of a body.
    ///
    /// # Errors
    /// As [`Rest::get`].
    pub fn post(&self, path: &str, content_type: &str, body: &[u8]) -> Result<Value> {
        let url = format!("{}{path}", self.base);
        // What was given up is done all the same, and done twice when it is asked for again.
        let request = self.agent.post(&url).config().timeout_global(Some(POST_LIMIT)).build();
        let answer = request.content_type(content_type).send(body).with_context(|| url.clone())?;
        json_of(&url, answer)
    }

    /// How many TaskManagers are registered.
    ///
    /// # Errors
    /// As [`Rest::get`].
    pub fn task_managers(&self) -> Result<u64> {
        Ok(self.get("/overview")?["taskmanagers"].as_u64().unwrap_or(0))
    }

    /// All jobs that the leader knows.
    ///
    /// # Errors
    /// As [`Rest::get`].
    pub fn jobs(&self) -> Result<Vec<Job>> {
        let overview = self.get("/jobs/overview")?;
        let jobs = overview["jobs"].as_array().ok_or_else(|| anyhow!("no `jobs` in {overview}"))?;
        Ok(jobs.iter().map(job).collect())
    }

    /// Uploads a jar and runs it; returns the job's id.
    ///
    /// # Errors
    /// As [`Rest::get`].
    pub fn run(&self, jar: &[u8], arguments: &[&str]) -> Result<String> {
        const BOUNDARY: &str = "a-boundary-that-no-jar-holds";
        let mut body = format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"jarfile\"; filename=\"job.jar\"\r\n\
             Content-Type: application/x-java-archive\r\n\r\n"
        )
        .into_bytes();
        body.extend_from_slice(jar);
        body.extend_from_slice(format!("\r\n--{BOUNDARY}--\r\n").as_bytes());
        let uploaded = self.post("/jars/upload", &format!("multipart/form-data; boundary={BOUNDARY}"), &body)?;
        let file = uploaded["filename"].as_str().ok_or_else(|| anyhow!("no file name in {uploaded}"))?;
        let id = file.rsplit('/').next().unwrap_or(file);
        let options = json!({ "programArgsList": arguments, "parallelism": 1 }).to_string();
        let started = self.post(&format!("/jars/{id}/run"), "application/json", options.as_bytes())?;
        Ok(started["jobid"].as_str().ok_or_else(|| anyhow!("no job id in {started}"))?.to_owned())
    }

    /// Cancels a job.
    ///
    /// # Errors
    /// As [`Rest::get`].
    pub fn cancel(&self, job_id: &str) -> Result<()> {
        let url = format!("{}/jobs/{job_id}?mode=cancel", self.base);
        let answer = self.agent.patch(&url).send_empty().with_context(|| url.clone())?;
        json_of(&url, answer).map(|_| ())
    }
}

fn json_of(url: &str, mut answer: ureq::http::Response<ureq::Body>) -> Result<Value> {
    let status = answer.status();
    let text = answer.body_mut().read_to_string().with_context(|| url.to_owned())?;
    if !status.is_success() {
        bail!("{url} answered {status}: {}", text.chars().take(600).collect::<String>());
    }
    serde_json::from_str(&text).with_context(|| format!("{url} answered no JSON: {text}"))
}

fn job(value: &Value) -> Job {
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let tasks = &value["tasks"];
    let count = |key: &str| tasks[key].as_u64().unwrap_or(0);
    let all_tasks_run = count("running") > 0 && count("running") + count("finished") == count("total");
    Job { id: text("jid"), name: text("name"), state: text("state"), all_tasks_run }
}
