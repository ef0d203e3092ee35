// What pointer and keys do on the photo: brush, polygon, rectangle, magic click, and moving it with one hand or two fingers.

import { paintStroke } from "./actions";
import type { Stage } from "./canvas";
import { drawStroke } from "./canvas";
import * as labels from "./labels";
import { problem, say } from "./status";
import { classOf, currentPhoto, on, state } from "./store";
import type { Mode, Point, Stroke } from "./types";
import { words } from "./words";

const CLOSE = 12;

export class Tools {
  private draft: Stroke | null = null;
  private draftPhoto = 0;
  /** Where the pointer is, in photo pixels; null when it is elsewhere. */
  private hover: Point | null = null;
  /** The cursor of the arrow keys. */
  private cursor: Point | null = null;
  private byKeys = false;
  private pointers = new Map<number, { x: number; y: number }>();
  private panning: number | null = null;
  private pinch: { distance: number; x: number; y: number } | null = null;
  private space = false;
  private sayLater = 0;

  constructor(private stage: Stage) {
    const { canvas } = stage;
    stage.drawTool = (context) => this.draw(context);
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", (event) => this.up(event));
    canvas.addEventListener("pointercancel", (event) => this.cancelPointer(event));
    canvas.addEventListener("pointerleave", () => {
      this.hover = null;
      stage.invalidate();
    });
    canvas.addEventListener("dblclick", () => this.closePolygon());
    canvas.addEventListener("contextmenu", (event) => event.preventDefault());
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("keydown", (event) => {
      delete canvas.dataset["by"];
      this.key(event);
    });
    canvas.addEventListener("blur", () => {
      this.cursor = null;
      stage.invalidate();
    });
    window.addEventListener("blur", () => this.setSpace(false));
    window.addEventListener("keyup", (event) => event.code === "Space" && this.setSpace(false));
    on("current", () => this.cancel());
    on("settings", () => {
      if (this.draft && this.draft.tool !== state.tool) this.cancel();
      this.drawPointer();
    });
    this.drawPointer();
  }

  /** Gives up the stroke in hand. Says whether there was one. */
  cancel(): boolean {
    const had = this.draft !== null;
    this.draft = null;
    this.byKeys = false;
    if (had) say(words.stage.cancelled);
    this.stage.invalidate();
    return had;
  }

  setSpace(held: boolean): void {
    if (this.space === held) return;
    this.space = held;
    this.drawPointer();
  }

  radius(): number {
    const photo = currentPhoto();
    return photo ? Math.max(0.5, state.brush * Math.max(photo.width, photo.height)) : 1;
  }

  private drawPointer(): void {
    const { canvas } = this.stage;
    canvas.closest(".paint")?.classList.toggle("painting", this.pointers.size > 0);
    const grab = this.space || state.tool === "hand" || this.panning !== null;
    canvas.dataset["pointer"] = this.panning !== null ? "grabbing" : grab ? "grab" : state.tool === "brush" ? "brush" : "cross";
    this.stage.invalidate();
  }

  /** Begins a stroke, or says why that cannot be. */
  private begin(point: Point, mode: Mode): boolean {
    const photo = currentPhoto();
    if (!photo || state.tool === "hand") return false;
    const item = classOf(state.classId);
    if (!item) {
      problem(words.stage.needClass, words.stage.needClassHint);
      document.getElementById("new-class")?.focus();
      return false;
    }
    if (item.base && mode === "add") {
      problem(words.stage.baseClass(item.name), words.stage.baseClassHint);
      return false;
    }
    this.draft = { class: item.id, mode, tool: state.tool, points: [point], radius: this.radius() };
    this.draftPhoto = photo.id;
    this.stage.invalidate();
    return true;
  }

  private finish(): void {
    clearTimeout(this.sayLater);
    const draft = this.draft;
    this.draft = null;
    this.byKeys = false;
    this.stage.invalidate();
    const photo = currentPhoto();
    if (!draft || !photo || photo.id !== this.draftPhoto) return;
    const round = (value: number) => Math.round(value * 100) / 100;
    draft.points = draft.points.map(([x, y]): Point => [round(x), round(y)]);
    draft.radius = round(draft.radius);
    const first = draft.points[0]!;
    const last = draft.points[draft.points.length - 1]!;
    if (draft.tool === "rectangle" && (Math.abs(first[0] - last[0]) < 1 || Math.abs(first[1] - last[1]) < 1)) return;
    if (draft.tool === "polygon" && draft.points.length < 3) return;
    paintStroke(photo.id, draft);
  }

  private modeOf(event: PointerEvent): Mode {
    if (event.buttons & 32) return "erase";
    if (event.buttons & 2 || event.altKey) return "not";
    return state.mode;
  }

  private down(event: PointerEvent): void {
    this.stage.canvas.focus({ preventScroll: true });
    this.stage.canvas.dataset["by"] = "pointer";
    this.cursor = null;
    this.stage.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (this.pointers.size === 2) {
      // A second finger means moving, not painting.
      if (this.draft?.tool !== "polygon") this.draft = null;
      this.pinch = this.spread();
      return;
    }
    if (this.pointers.size > 2) return;
    if (this.space || state.tool === "hand" || event.button === 1) {
      this.panning = event.pointerId;
      this.drawPointer();
      return;
    }
    const point = this.stage.toPhoto(event.clientX, event.clientY);
    if (this.byKeys) this.cancel();
    if (this.draft?.tool === "polygon") {
      const first = this.draft.points[0]!;
      const [x, y] = this.stage.toScreen(first);
      const [px, py] = this.stage.toScreen(point);
      if (this.draft.points.length >= 3 && Math.hypot(x - px, y - py) < CLOSE) this.finish();
      else this.draft.points.push(point);
      this.stage.invalidate();
      return;
    }
    this.begin(point, this.modeOf(event));
    this.drawPointer();
  }

  private move(event: PointerEvent): void {
    const held = this.pointers.get(event.pointerId);
    if (held && this.pinch && this.pointers.size === 2) {
      this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
      const next = this.spread();
      this.stage.pan(next.x - this.pinch.x, next.y - this.pinch.y);
      if (this.pinch.distance > 0) this.stage.zoom(next.distance / this.pinch.distance, next.x, next.y);
      this.pinch = next;
      return;
    }
    if (held && this.panning === event.pointerId) {
      this.stage.pan(event.clientX - held.x, event.clientY - held.y);
      this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
      return;
    }
    this.hover = event.pointerType === "touch" && !held ? null : this.stage.toPhoto(event.clientX, event.clientY);
    if (held) this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (held && this.draft && !this.byKeys) {
      if (this.draft.tool === "rectangle") this.draft.points[1] = this.hover ?? this.draft.points[0]!;
      else if (this.draft.tool !== "polygon") {
        const events = event.getCoalescedEvents?.() ?? [];
        for (const part of events.length > 0 ? events : [event]) this.extend(this.stage.toPhoto(part.clientX, part.clientY));
      }
    }
    this.stage.invalidate();
  }

  /** Adds a point unless it is next to the last one. */
  private extend(point: Point): void {
    const points = this.draft?.points;
    const last = points?.[points.length - 1];
    if (!points || !last || points.length >= 4000) return;
    const step = Math.max(0.75 / this.stage.scale, this.draft!.radius * 0.08);
    if (Math.hypot(point[0] - last[0], point[1] - last[1]) >= step) points.push(point);
  }

  private up(event: PointerEvent): void {
    const was = this.pointers.size;
    this.pointers.delete(event.pointerId);
    if (this.pinch) {
      if (this.pointers.size < 2) this.pinch = null;
      return;
    }
    if (this.panning === event.pointerId) {
      this.panning = null;
      this.drawPointer();
      return;
    }
    if (event.pointerType === "touch") this.hover = null;
    if (was === 1 && this.draft && this.draft.tool !== "polygon" && !this.byKeys) this.finish();
    this.drawPointer();
  }

  private cancelPointer(event: PointerEvent): void {
    this.pointers.delete(event.pointerId);
    this.pinch = null;
    this.panning = null;
    if (this.draft?.tool !== "polygon") this.cancel();
    this.drawPointer();
  }

  private spread(): { distance: number; x: number; y: number } {
    const [a, b] = [...this.pointers.values()];
    if (!a || !b) return { distance: 0, x: 0, y: 0 };
    return { distance: Math.hypot(a.x - b.x, a.y - b.y), x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
  }

  private wheel(event: WheelEvent): void {
    event.preventDefault();
    const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
    if (event.shiftKey) this.stage.pan(-(event.deltaX || event.deltaY) * unit, 0);
    else this.stage.zoom(Math.exp(-event.deltaY * unit * (event.ctrlKey ? 0.01 : 0.0018)), event.clientX, event.clientY);
  }

  closePolygon(): void {
    const draft = this.draft;
    if (draft?.tool !== "polygon") return;
    // A double click leaves its point twice.
    const [a, b] = draft.points.slice(-2);
    if (a && b && Math.hypot(a[0] - b[0], a[1] - b[1]) * this.stage.scale < 4) draft.points.pop();
    if (draft.points.length >= 3) this.finish();
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey && event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    const photo = currentPhoto();
    if (!photo) return;
    const ways: Record<string, Point> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const way = ways[event.key];
    if (way) {
      const step = event.ctrlKey ? 1 : (Math.max(photo.width, photo.height) / 100) * (event.shiftKey ? 8 : 1.5);
      this.cursor ??= this.hover ?? [photo.width / 2, photo.height / 2];
      this.cursor = [clamp(this.cursor[0] + way[0] * step, photo.width), clamp(this.cursor[1] + way[1] * step, photo.height)];
      this.stage.reveal(this.cursor);
      if (this.draft && this.byKeys) {
        if (this.draft.tool === "rectangle") this.draft.points[1] = this.cursor;
        else if (this.draft.tool !== "polygon") this.draft.points.push(this.cursor);
      }
      this.sayCursor();
    } else if (event.key === "Enter") {
      this.enter(photo.width, photo.height);
    } else if (event.key === "Backspace" && this.draft?.tool === "polygon") {
      this.draft.points.pop();
      if (this.draft.points.length === 0) this.cancel();
    } else if (event.key.toLowerCase() === "c" && this.draft?.tool === "polygon") {
      this.closePolygon();
    } else if (event.code === "Space") {
      this.setSpace(true);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    this.stage.invalidate();
  }

  private enter(width: number, height: number): void {
    if (this.draft?.tool === "polygon" && !this.cursor) {
      this.closePolygon();
      return;
    }
    this.cursor ??= this.hover ?? [width / 2, height / 2];
    const point = this.cursor;
    if (!this.draft) {
      if (!this.begin([...point], state.mode)) return;
      if (state.tool === "magic") {
        this.finish();
        return;
      }
      this.byKeys = true;
      say(state.tool === "brush" ? words.stage.strokeStarted : state.tool === "rectangle" ? words.stage.cornerSet : words.stage.pointSet(1));
    } else if (this.draft.tool === "polygon") {
      const first = this.draft.points[0]!;
      if (this.draft.points.length >= 3 && Math.hypot(first[0] - point[0], first[1] - point[1]) * this.stage.scale < CLOSE) {
        this.finish();
      } else {
        this.draft.points.push([...point]);
        say(words.stage.pointSet(this.draft.points.length));
      }
    } else {
      this.finish();
    }
  }

  /** Reads out what the model sees under the cursor, once it rests. */
  private sayCursor(): void {
    clearTimeout(this.sayLater);
    this.sayLater = window.setTimeout(() => {
      const photo = currentPhoto();
      const map = photo ? labels.largeEntry(photo.id)?.now : null;
      if (!photo || !this.cursor) return;
      const [x, y] = this.cursor;
      let what = "";
      if (map) {
        const column = Math.min(map.width - 1, Math.floor((x / photo.width) * map.width));
        const row = Math.min(map.height - 1, Math.floor((y / photo.height) * map.height));
        const at = row * map.width + column;
        const name = classOf(map.ids[at] ?? 0)?.name ?? words.classes.rest;
        what = words.stage.cursorClass(name, (map.confidence?.[at] ?? 255) / 255);
      }
      say(words.stage.cursor(Math.round(x), Math.round(y), what));
    }, 350);
  }

  private draw(context: CanvasRenderingContext2D): void {
    const { scale } = this.stage;
    const thin = 1.5 / scale;
    if (this.draft) {
      const shown = { ...this.draft };
      const end = this.byKeys ? this.cursor : this.hover;
      if (shown.tool === "polygon" && end) shown.points = [...shown.points, end];
      drawStroke(context, shown, scale);
      if (shown.tool === "polygon" || shown.tool === "rectangle") this.drawCorners(context, shown.points);
    }
    const place = this.cursor ?? this.hover;
    if (!place) return;
    context.save();
    if (state.tool === "brush" && !this.space) {
      const radius = this.radius();
      for (const [colour, width] of [["rgba(0,0,0,0.65)", 3 * thin], ["#ffffff", thin]] as const) {
        context.strokeStyle = colour;
        context.lineWidth = width;
        context.beginPath();
        context.arc(place[0], place[1], radius, 0, 2 * Math.PI);
        context.stroke();
      }
    }
    if (this.cursor) {
      const reach = 14 / scale;
      for (const [colour, width] of [["rgba(0,0,0,0.75)", 4 * thin], ["#ffffff", 1.4 * thin]] as const) {
        context.strokeStyle = colour;
        context.lineWidth = width;
        context.beginPath();
        context.moveTo(place[0] - reach, place[1]);
        context.lineTo(place[0] + reach, place[1]);
        context.moveTo(place[0], place[1] - reach);
        context.lineTo(place[0], place[1] + reach);
        context.stroke();
      }
    }
    context.restore();
  }

  private drawCorners(context: CanvasRenderingContext2D, points: Point[]): void {
    const { scale } = this.stage;
    context.save();
    context.fillStyle = "#ffffff";
    context.strokeStyle = "rgba(0,0,0,0.7)";
    context.lineWidth = 1 / scale;
    for (const [index, [x, y]] of points.entries()) {
      context.beginPath();
      context.arc(x, y, (index === 0 ? 5 : 3.5) / scale, 0, 2 * Math.PI);
      context.fill();
      context.stroke();
    }
    context.restore();
  }
}

const clamp = (value: number, size: number) => Math.min(size - 0.01, Math.max(0, value));
