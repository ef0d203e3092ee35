// What the server sends, as it sends it, and the few words the page is steered by.

export interface ClassInfo {
  id: number;
  name: string;
  color: string;
  hidden: boolean;
  painted_photos: number[];
  pixels: number;
  base: boolean;
}

export interface Check {
  class: number;
  photo: number;
  iou: number | null;
  confused_with: { class: number; share: number }[];
}

export interface Project {
  schema: string;
  name: string;
  revision: number;
  can_undo: boolean;
  can_redo: boolean;
  photos: number;
  features: { done: number; total: number; failed: number };
  model: { name: string; side: number };
  classes: ClassInfo[];
  checks: Check[];
  checks_revision?: number;
}

export interface Photo {
  id: number;
  name: string;
  width: number;
  height: number;
  features: "ready" | "waiting" | "failed";
  error: string | null;
  painted: number[];
  uncertainty: number | null;
}

/** Labels (class ids, 0 = everything else, 255 = none) or paint (0 = unpainted, 254 = none of the classes). */
export interface LabelMap {
  width: number;
  height: number;
  revision: number;
  ids: Uint8Array;
  confidence: Uint8Array | null;
}

export type Tool = "brush" | "polygon" | "rectangle" | "magic" | "hand";
export type Mode = "add" | "not" | "erase";
export type View = "overlay" | "confidence" | "changed" | "strokes" | "photo";
export type Point = [number, number];

export interface Stroke {
  class: number;
  mode: Mode;
  tool: Exclude<Tool, "hand">;
  points: Point[];
  radius: number;
}

export interface StrokeAnswer {
  revision: number;
  pixels: number;
  milliseconds?: number;
  box?: [number, number, number, number] | null;
}

export const NEGATIVE = 254;
