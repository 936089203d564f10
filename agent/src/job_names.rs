//! What jobs are called. Flink tells the name of a job with its tasks, not with its leader, so it is kept beside the board.
//!
//! Written on Flink's thread, without a lock: a look-up for each task, and an entry for each job. A job whose name is not
//! known yet goes by its id.

use std::sync::Arc;

use papaya::HashMap;

use crate::leadership::JobId;

/// Names that are kept; a session cluster may run more jobs than this over the months, one after the other.
const MOST: usize = 10_000;

/// The names of jobs, by their ids.
#[derive(Debug, Default)]
pub struct JobNames(HashMap<JobId, Arc<str>>);

impl JobNames {
    /// A task of this job is here, and this is the job's name. On Flink's thread.
    pub fn note(&self, job: JobId, name: &str) {
        let names = self.0.pin();
        let is_known = names.get(&job).is_some_and(|known| **known == *name);
        if name.is_empty() || is_known {
            return;
        }
        if names.len() >= MOST {
            // Those of jobs that run come back with their next task.
            names.clear();
        }
        names.insert(job, Arc::from(name));
    }

    /// The name of a job, where a task of it was here.
    pub fn of(&self, job: JobId) -> Option<String> {
        self.0.pin().get(&job).map(|name| name.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_name_of_a_job_is_known_and_their_number_is_bounded() {
        let names = JobNames::default();
        names.note(JobId(1), "orders");
        names.note(JobId(1), "");
        assert_eq!((names.of(JobId(1)).as_deref(), names.of(JobId(2))), (Some("orders"), None));
        names.note(JobId(1), "orders-v2");
        assert_eq!(names.of(JobId(1)).as_deref(), Some("orders-v2"));
        for number in 0..2 * MOST as u128 {
            names.note(JobId(number), "n");
        }
        assert!(names.0.len() <= MOST);
        assert_eq!(names.of(JobId(2 * MOST as u128 - 1)).as_deref(), Some("n"));
    }
}
