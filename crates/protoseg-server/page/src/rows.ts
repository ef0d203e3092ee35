// Photos in rows of one height each, filled from edge to edge. Plain numbers in and out.

export interface Slot {
  index: number;
  row: number;
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Rows {
  slots: Slot[];
  height: number;
}

/** Lays out shapes (width / height) so that each row fills `width` at about `target` pixels of height. */
export function layRows(shapes: number[], width: number, target: number, gap: number): Rows {
  const slots: Slot[] = [];
  let y = 0;
  let row = 0;
  for (let first = 0; first < shapes.length; row += 1) {
    let sum = 0;
    let end = first;
    while (end < shapes.length && (end === first || sum * target + (end - first) * gap < width)) {
      sum += Math.min(2.6, Math.max(0.5, shapes[end]!));
      end += 1;
    }
    const full = sum * target + (end - first - 1) * gap >= width * 0.8;
    const height = full ? (width - (end - first - 1) * gap) / sum : target;
    let x = 0;
    for (let index = first; index < end; index += 1) {
      const wide = Math.min(2.6, Math.max(0.5, shapes[index]!)) * height;
      slots.push({ index, row, x, y, width: wide, height });
      x += wide + gap;
    }
    y += height + gap;
    first = end;
  }
  return { slots, height: Math.max(0, y - gap) };
}

/** Index of the first slot whose lower edge is below `y`. */
export function firstBelow(slots: Slot[], y: number): number {
  let low = 0;
  let high = slots.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const slot = slots[middle]!;
    if (slot.y + slot.height > y) high = middle;
    else low = middle + 1;
  }
  return low;
}
