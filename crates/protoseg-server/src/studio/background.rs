//! What a studio does when nobody waits: it looks at photos, those that people look at first, and finds out how good the
//! supports are.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use protoseg::method::Seen;
use serde_json::json;

use super::{
    check::{check_all, doubt},
    state::Studio,
};

/// Strokes rest if none came for this long.
const REST: Duration = Duration::from_millis(600);
/// How long work stands back for requests, at most.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long to wait for something to do.
const NAP: Duration = Duration::from_millis(200);
/// Side of the small picture that is made while a photo is in memory: the page's smallest.
const THUMBNAIL: usize = 192;

impl Studio {
    /// Begins the work in the background. It ends when the studio is closed.
    pub fn begin(self: &Arc<Self>) -> JoinHandle<()> {
        let studio = Arc::clone(self);
        std::thread::spawn(move || {
            while !studio.features.is_stopped() {
                // One photo that breaks the model is no reason to stop looking at others.
                if !catch_unwind(AssertUnwindSafe(|| studio.work())).unwrap_or(true) {
                    studio.features.wait(NAP);
                }
            }
        })
    }

    /// Waits while somebody else waits for an answer.
    pub fn stand_back(&self) {
        let start = Instant::now();
        while self.is_asked() && start.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Does one piece of work, if there is any.
    fn work(&self) -> bool {
        if let Some(photo) = self.features.next_urgent() {
            self.look(photo);
            return true;
        }
        let rests = self.last_change().elapsed() >= REST;
        let revision = self.taught().revision;
        if rests && self.checks.revision() != revision {
            if let Some((revision, checks)) = check_all(self) {
                self.checks.put(revision, checks);
                self.events.send("checks", &json!({ "revision": revision }));
            }
            return true;
        }
        if let Some(photo) = self.features.next() {
            self.look(photo);
            return true;
        }
        rests && self.doubt_all(revision)
    }

    /// Looks at a photo.
    fn look(&self, id: u32) {
        self.stand_back();
        let Ok(photo) = self.photos.get(id) else { return };
        let looked = catch_unwind(AssertUnwindSafe(|| {
            let image = self.photos.read(&photo)?;
            let _ = self.thumbnails.make(id, THUMBNAIL, &image);
            let seen = self.features.look(&image);
            // Now: it may be let go before strokes rest.
            self.doubt_one(id, &seen, (image.width, image.height));
            Ok(seen)
        }));
        let failed = || Err(format!("the model cannot look at `{}`", photo.name));
        self.features.put(id, looked.unwrap_or_else(|_| failed()));
        let (done, _) = self.features.counts();
        let total = self.features.planned(self.photos.len());
        self.events.send("features", &json!({ "photo": id, "done": done, "total": total }));
    }

    /// Finds out how unsure the model is of a photo that was just seen, if it knows any class.
    fn doubt_one(&self, id: u32, seen: &Seen, size: (usize, usize)) {
        let taught = self.taught();
        if taught.knows_classes() {
            self.checks.put_unsure(id, taught.revision, doubt(&taught, seen, size));
        }
    }

    /// Finds out how unsure the model is of each photo in memory; of others, what was found out last stays. True if that
    /// was interrupted.
    fn doubt_all(&self, revision: u32) -> bool {
        let taught = self.taught();
        if !taught.knows_classes() {
            return false;
        }
        for photo in self.photos.part(0, usize::MAX) {
            if self.checks.is_fresh(photo.id, revision) {
                continue;
            }
            let Some(seen) = self.features.peek(photo.id) else { continue };
            self.stand_back();
            if self.features.is_wanted() || self.taught().revision != revision {
                return true;
            }
            let size = self.photos.size(&photo).unwrap_or((1, 1));
            self.checks.put_unsure(photo.id, revision, doubt(&taught, &seen, size));
        }
        false
    }
}
