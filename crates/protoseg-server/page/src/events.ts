// What the server tells by itself: new revisions (also from another window), features that are ready, photos, checks.

import { dropOffer, follow, loadPhotosSoon, loadProject, loadProjectSoon } from "./actions";
import { drawProgress, report, setConnected } from "./status";
import { emit, state } from "./store";

function parse(event: Event): Record<string, unknown> {
  try {
    return JSON.parse((event as MessageEvent<string>).data) as Record<string, unknown>;
  } catch {
    return {};
  }
}

let opened = false;

export function listen(): void {
  const source = new EventSource("/api/events");

  source.addEventListener("open", () => {
    setConnected(true);
    // What happened before the line was open, or while it was down, is not told again.
    const again = opened;
    opened = true;
    void loadProject()
      .then(() => (again ? follow(state.revision, true) : undefined))
      .catch(report);
    loadPhotosSoon(200);
  });

  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) {
      setConnected(false);
      setTimeout(listen, 2000);
    } else {
      // The browser tries again by itself. A short break is no news.
      setTimeout(() => source.readyState !== EventSource.OPEN && setConnected(false), 1500);
    }
  });

  source.addEventListener("revision", (event) => {
    const revision = Number(parse(event)["revision"]);
    if (revision > state.revision && state.saving === 0) {
      dropOffer();
      void loadProject().then(() => follow(revision, true)).catch(report);
    }
  });

  source.addEventListener("features", (event) => {
    const { photo: id, done, total } = parse(event);
    const features = state.project?.features;
    if (features) {
      features.done = Number(done);
      features.total = Number(total);
      drawProgress();
      if (features.done >= features.total - features.failed) {
        loadProjectSoon();
        loadPhotosSoon(500);
      }
    }
    const photo = state.byId.get(Number(id));
    if (photo) {
      if (photo.features === "waiting") photo.features = "ready";
      emit("photo", photo.id);
    }
  });

  source.addEventListener("photos", (event) => {
    if (Number(parse(event)["total"]) !== state.photos.length) {
      loadPhotosSoon(150);
      loadProjectSoon();
    }
  });

  source.addEventListener("checks", () => {
    loadProjectSoon(0);
    loadPhotosSoon();
  });
}
