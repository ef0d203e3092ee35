// Small helpers for building the page: elements, icons, and groups of buttons of which one is chosen.

export type Child = Node | string | null | undefined | false;
type Value = string | number | boolean | null | undefined | ((event: never) => void);

/** Makes an element. Keys that begin with `on` are listeners, others are attributes; `false` and `null` leave one out. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, Value> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (typeof value === "function") {
      element.addEventListener(key.slice(2), value as unknown as EventListener);
    } else {
      element.setAttribute(key, value === true ? "" : String(value));
    }
  }
  append(element, children);
  return element;
}

export function append(parent: Element, children: Child[]): void {
  for (const child of children) {
    if (child !== null && child !== undefined && child !== false) parent.append(child);
  }
}

/** Sets text only where it differs, so that screen readers are not told twice. */
export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

// Drawn on a square of 20 units with a line of 1.6; an `f` in front means filled.
const shapes = {
  brush: ["M16.5 3.5c-4 2-7 5-8.6 7.6l2 2C12.500 11.500 15.500 8 16.500 3.500z", "M7.200 12c-2 .2-2.600 1.600-2.800 2.900-.1.9-.6 1.400-1.400 1.700 2 .9 5.800.6 6.200-2.400"],
  polygon: ["M4 7.500 10.500 3.500 16.500 8.500 13.500 16 5.500 15z"],
  rectangle: ["M3.500 5h13v10h-13z"],
  magic: ["M4 16l7.500-7.500", "M13.500 2.500v3M12 4h3M16.500 8.500v2.500M15.200 9.800h2.600M8 3.500v2M7 4.500h2"],
  hand: ["M10 2.500v15M2.500 10h15", "M7.800 4.700 10 2.500l2.200 2.200M7.800 15.300 10 17.500l2.200-2.200M4.700 7.800 2.500 10l2.200 2.200M15.300 7.800 17.500 10l-2.200 2.200"],
  plus: ["M10 4v12M4 10h12"],
  minus: ["M4 10h12"],
  not: ["M10 3a7 7 0 1 0 0 14 7 7 0 0 0 0-14z", "M5.200 14.800l9.600-9.600"],
  erase: ["M8 16 3.500 11.500l7.500-8 5.500 5.500L10 16z", "M6.800 8l5.500 5.500M8 16h9"],
  undo: ["M7 4 3.500 7.500 7 11", "M3.500 7.500h8a4.500 4.500 0 0 1 0 9H7"],
  redo: ["M13 4l3.500 3.500L13 11", "M16.500 7.500h-8a4.500 4.500 0 0 0 0 9H13"],
  eye: ["M2 10c2-3.700 4.700-5.500 8-5.500s6 1.800 8 5.500c-2 3.700-4.700 5.500-8 5.500S4 13.700 2 10z", "M10 7.500a2.500 2.500 0 1 0 0 5 2.500 2.500 0 0 0 0-5z"],
  eyeOff: ["M4.500 6.500C3.500 7.400 2.700 8.600 2 10c2 3.700 4.700 5.500 8 5.500 1.200 0 2.300-.2 3.300-.7M8 4.700c.6-.1 1.300-.2 2-.2 3.300 0 6 1.800 8 5.500-.5.900-1.100 1.800-1.800 2.500", "M3 3l14 14"],
  trash: ["M4 6h12M8 6V3.500h4V6M5.500 6l.7 10.500h7.600L14.500 6"],
  pencil: ["M4 16l.8-3.200L13.500 4l2.500 2.500-8.700 8.700z"],
  target: ["M10 4.500a5.500 5.500 0 1 0 0 11 5.500 5.500 0 0 0 0-11z", "M10 2v4M10 14v4M2 10h4M14 10h4", "M10 9.900v.2"],
  download: ["M10 3v9.500M6 9l4 4 4-4M3.500 16.500h13"],
  upload: ["M10 13V3.500M6 7l4-4 4 4M3.500 16.500h13"],
  close: ["M5 5l10 10M15 5 5 15"],
  left: ["M12.500 4 6.500 10l6 6"],
  right: ["M7.500 4l6 6-6 6"],
  down: ["M5 7.500l5 5 5-5"],
  fit: ["M3.500 7V3.500H7M13 3.500h3.500V7M16.500 13v3.500H13M7 16.500H3.500V13"],
  check: ["M4 10.500l4 4 8-9"],
  photos: ["M3 4.500h14v11H3z", "M3 13l4-4 3.500 3.500L13 10l4 4", "M12.700 7.300v.2"],
  layers: ["M10 3l7 3.700-7 3.700-7-3.700z", "M3.500 10.300 10 13.700l6.500-3.400M3.500 13.700 10 17l6.500-3.300"],
  mask: ["M5 2.500h7l3.500 3.500v11.500H5z", "M12 2.500V6h3.500", "M10 15v-5M7.800 12 10 9.800l2.200 2.200"],
  copy: ["M7 7h9.500v9.500H7z", "M13 7V3.500H3.500V13H7"],
  wide: ["M3.500 3.500h5.500v5.500H3.500zM11 3.500h5.500v5.500H11zM3.500 11h5.500v5.500H3.500zM11 11h5.500v5.500H11z"],
  help: ["M10 3a7 7 0 1 0 0 14 7 7 0 0 0 0-14z", "M7.900 8.100a2.100 2.100 0 1 1 3.100 1.900c-.7.400-1 .8-1 1.600", "M10 13.900v.2"],
  warning: ["M10 3.500 17.500 16.500h-15z", "M10 8.500v3.500M10 14v.2"],
} as const;

export type IconName = keyof typeof shapes;

export function icon(name: IconName): SVGSVGElement {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("viewBox", "0 0 20 20");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  for (const d of shapes[name]) {
    const path = document.createElementNS(space, "path");
    path.setAttribute("d", d);
    svg.append(path);
  }
  return svg;
}

/** A button with an icon whose name is read out and shown as a tip. */
export function iconButton(name: IconName, label: string, onclick: () => void, extra = ""): HTMLButtonElement {
  return h("button", { type: "button", class: `icon-button ${extra}`, "aria-label": label, title: label, onclick }, icon(name));
}

export interface Choice<T extends string> {
  value: T;
  label: string;
  tip?: string;
  icon?: IconName;
}

/** A row of buttons of which exactly one is chosen. Arrow keys walk through it. */
export class Choices<T extends string> {
  readonly element: HTMLDivElement;
  private buttons = new Map<T, HTMLButtonElement>();

  constructor(label: string, choices: Choice<T>[], private choose: (value: T) => void, extra = "") {
    this.element = h("div", { class: `choices ${extra}`, role: "radiogroup", "aria-label": label });
    for (const choice of choices) {
      const button = h(
        "button",
        {
          type: "button",
          role: "radio",
          "data-value": choice.value,
          "aria-label": choice.label,
          title: choice.tip ?? choice.label,
          onclick: () => this.choose(choice.value),
        },
        choice.icon ? icon(choice.icon) : null,
        h("span", { class: "choice-text" }, choice.label),
      );
      this.buttons.set(choice.value, button);
      this.element.append(button);
    }
    this.element.addEventListener("keydown", (event) => this.walk(event));
  }

  set(value: T): void {
    for (const [key, button] of this.buttons) {
      button.setAttribute("aria-checked", String(key === value));
      button.tabIndex = key === value ? 0 : -1;
    }
  }

  private walk(event: KeyboardEvent): void {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step === undefined) return;
    const all = [...this.buttons.values()];
    const at = all.indexOf(document.activeElement as HTMLButtonElement);
    const next = all[(at + step + all.length) % all.length];
    if (!next) return;
    event.preventDefault();
    event.stopPropagation();
    next.focus();
    next.click();
  }
}
