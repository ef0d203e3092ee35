//! Numbers with their units, as people read them.

use std::time::Duration;

/// `850 ms`, `42 s`, `3 min 05 s`, `2 h 04 min`, `3 d 07 h`.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    match seconds {
        0 => format!("{} ms", time.as_millis()),
        1..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {:02} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {:02} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

pub fn seconds(seconds: f64) -> String {
    duration(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

/// `512 MiB`, `3.2 GiB`.
pub fn bytes(bytes: u64) -> String {
    let mib = bytes as f64 / f64::from(1 << 20);
    if mib < 1000.0 { format!("{mib:.0} MiB") } else { format!("{:.1} GiB", mib / 1024.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_read_well() {
        let times = [0.25, 59.4, 185.0, 7_490.0, 284_400.0].map(seconds);
        assert_eq!(times, ["250 ms", "59 s", "3 min 05 s", "2 h 04 min", "3 d 07 h"]);
        assert_eq!([300 << 20, 3 << 30].map(bytes), ["300 MiB", "3.0 GiB"]);
    }
}
