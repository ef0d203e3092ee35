//! Counts for Prometheus.

use std::{
    fmt::Write,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Upper bounds of the groups of answer times, in seconds.
const BOUNDS: [f64; 9] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

/// Counts since the start.
#[derive(Debug, Default)]
pub struct Metrics {
    /// By the first digit of the status, 2 to 5.
    answers: [AtomicU64; 4],
    busy: AtomicU64,
    /// One more than there are bounds.
    times: [AtomicU64; BOUNDS.len() + 1],
    microseconds: AtomicU64,
}

impl Metrics {
    /// Counts an answer.
    pub fn count(&self, status: u16, time: Duration) {
        let place = usize::from(status / 100).clamp(2, 5) - 2;
        self.answers[place].fetch_add(1, Ordering::Relaxed);
        if status == 503 {
            self.busy.fetch_add(1, Ordering::Relaxed);
        }
        let place = BOUNDS.iter().position(|bound| time.as_secs_f64() <= *bound).unwrap_or(BOUNDS.len());
        self.times[place].fetch_add(1, Ordering::Relaxed);
        self.microseconds.fetch_add(time.as_micros() as u64, Ordering::Relaxed);
    }

    /// As Prometheus reads it, with the values of some gauges: name, what it is, value.
    pub fn text(&self, gauges: &[(&str, &str, f64)]) -> String {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let mut text = String::from(
            "# HELP protoseg_answers_total Answers by kind of status.\n# TYPE protoseg_answers_total counter\n",
        );
        for (count, kind) in self.answers.iter().zip(2..) {
            let _ = writeln!(text, "protoseg_answers_total{{status=\"{kind}xx\"}} {}", get(count));
        }
        text += "# HELP protoseg_busy_total Requests that were asked to come again.\n# TYPE protoseg_busy_total counter\n";
        let _ = writeln!(text, "protoseg_busy_total {}", get(&self.busy));
        text += "# HELP protoseg_answer_seconds Time to answer.\n# TYPE protoseg_answer_seconds histogram\n";
        let mut sum = 0;
        for (count, bound) in self.times.iter().zip(BOUNDS) {
            sum += get(count);
            let _ = writeln!(text, "protoseg_answer_seconds_bucket{{le=\"{bound}\"}} {sum}");
        }
        sum += get(&self.times[BOUNDS.len()]);
        let _ = writeln!(text, "protoseg_answer_seconds_bucket{{le=\"+Inf\"}} {sum}");
        let _ = writeln!(text, "protoseg_answer_seconds_sum {}", get(&self.microseconds) as f64 / 1e6);
        let _ = writeln!(text, "protoseg_answer_seconds_count {sum}");
        for (name, help, value) in gauges {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_times_add_up() {
        let metrics = Metrics::default();
        metrics.count(200, Duration::from_millis(7));
        metrics.count(503, Duration::from_secs(9));
        let text = metrics.text(&[("protoseg_photos", "Photos.", 3.0)]);
        for line in [
            "protoseg_answers_total{status=\"2xx\"} 1",
            "protoseg_answers_total{status=\"5xx\"} 1",
            "protoseg_busy_total 1",
            "protoseg_answer_seconds_bucket{le=\"0.005\"} 0",
            "protoseg_answer_seconds_bucket{le=\"0.01\"} 1",
            "protoseg_answer_seconds_bucket{le=\"+Inf\"} 2",
            "protoseg_photos 3",
        ] {
            assert!(text.lines().any(|own| own == line), "{line}\n{text}");
        }
    }
}
