// Small helpers to build the page. Text is always text: nothing here takes HTML.

type Child = Node | string | null | undefined;
type Attributes = Record<string, string | number | boolean | undefined>;

export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (name === "class") made.className = String(value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) if (child !== null && child !== undefined) made.append(child);
  return made;
}

export function button(label: string, title: string, act: () => void): HTMLButtonElement {
  const made = element("button", { type: "button", title }, label);
  if (label !== title) made.setAttribute("aria-label", title);
  made.addEventListener("click", act);
  return made;
}

/** Says something to screen readers, once. */
export function announce(text: string): void {
  const live = document.getElementById("live");
  if (live) live.textContent = text;
}

/** A colour of the theme in force: "--ink". */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// Words that have a colour of their own, so that a class looks the same in every section.
const kOwn = [
  ["convolution", "compute", "kernels", "activations", "untouched", "agrees"],
  ["gemm", "batched_gemm", "communication", "workspace", "in view"],
  ["normalization", "collective", "optimizer", "input"],
  ["elementwise", "pool", "held by the allocator"],
  ["pooling", "embedding", "gradients"],
  ["softmax", "stragglers", "does not agree", "recurrent"],
  ["transpose", "mark", "context", "context, libraries"],
  ["copy", "transfer", "weights", "launch"],
  ["memset", "host update", "call", "no answer"],
  ["idle", "host", "host work", "other", "fitted"],
];

/** The colour of a word, 0 to 9: its own, or that of its place in a list. */
export function colourOf(word: string, place: number): number {
  const own = kOwn.findIndex((words) => words.includes(word));
  return own >= 0 ? own : place % 10;
}

/** Colours that tell series apart; more than ten begin again. */
export function palette(): string[] {
  return Array.from({ length: 10 }, (_, i) => colour(`--c${i}`));
}
