// Small choices of this browser, such as the last tool. Nothing of the project is kept here.

export function readChoice<T extends string>(key: string, fallback: T): T {
  try {
    return (localStorage.getItem(`protoseg.${key}`) as T | null) ?? fallback;
  } catch {
    return fallback;
  }
}

export function writeChoice(key: string, value: string): void {
  try {
    localStorage.setItem(`protoseg.${key}`, value);
  } catch {
    // A browser that keeps nothing still works.
  }
}
