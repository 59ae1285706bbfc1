// What ran when: tracks of slices on a canvas, of which only what can be seen is drawn, so that 100,000 slices move
// smoothly. Zoom: buttons, keys, Ctrl and wheel, two fingers; move: drag, keys.
import type { TimelineSection, Track } from "./data.js";
import { announce, button, colour, colourOf, element, palette } from "./dom.js";
import { scaleOf, show } from "./format.js";
import type { Drawn, Frame } from "./section.js";

/** A track made ready to be searched: times in ticks from zero. */
interface Lane {
  track: Track;
  begin: Float64Array;
  end: Float64Array;
  /** Latest end of this slice and all before it: never falls, so that it can be searched. */
  reach: Float64Array;
  /** How many slices of the track a slice lies within. */
  level: Uint8Array;
  levels: number;
  top: number;
  height: number;
}

const kLevel = 15;
const kGap = 5;
const kRuler = 24;
const kMostLevels = 4;

function makeLane(track: Track, top: number): Lane {
  const n = track.begin.length;
  const lane: Lane = {
    track,
    begin: new Float64Array(n),
    end: new Float64Array(n),
    reach: new Float64Array(n),
    level: new Uint8Array(n),
    levels: 1,
    top,
    height: 0,
  };
  let at = 0;
  let reach = 0;
  const open: number[] = [];
  for (let i = 0; i < n; ++i) {
    at += track.begin[i];
    const end = at + track.length[i];
    while (open.length && open[open.length - 1] <= at) open.pop();
    lane.begin[i] = at;
    lane.end[i] = end;
    lane.reach[i] = reach = Math.max(reach, end);
    lane.level[i] = Math.min(open.length, kMostLevels - 1);
    lane.levels = Math.max(lane.levels, lane.level[i] + 1);
    open.push(end);
  }
  lane.height = lane.levels * kLevel + kGap;
  return lane;
}

/** The first slice that reaches beyond `tick`. */
function firstReaching(lane: Lane, tick: number): number {
  let low = 0;
  let high = lane.reach.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (lane.reach[middle] > tick) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** 1, 2 or 5 times a power of ten, so that about `count` of them fill `span`. */
function niceStep(span: number, count: number): number {
  const rough = span / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const part = rough / power;
  return (part < 1.5 ? 1 : part < 3.5 ? 2 : part < 7.5 ? 5 : 10) * power;
}

interface Picked {
  lane: Lane;
  index: number;
}

export class TimelineView {
  private readonly lanes: Lane[] = [];
  private readonly groups: { name: string; top: number }[] = [];
  private readonly whole: number;
  private readonly height: number;
  private readonly canvas = element("canvas", { "aria-hidden": "true" });
  private readonly tip = element("div", { class: "tip float", hidden: true });
  private readonly holder: HTMLElement;
  private from = 0;
  private to = 1;
  private picked: Picked | null = null;
  private wanted = "";
  private matching: Uint8Array;
  private frame = 0;
  private colours: string[] = [];
  private readonly colourOfClass: number[];

  constructor(
    private readonly section: TimelineSection,
    made: Frame,
  ) {
    this.colourOfClass = section.classes.map(colourOf);
    let top = kRuler;
    let group = "";
    let whole = 1;
    for (const track of section.tracks) {
      if (track.group !== group) {
        group = track.group;
        this.groups.push({ name: group, top });
        top += 20;
      }
      const lane = makeLane(track, top);
      this.lanes.push(lane);
      top += lane.height;
      if (lane.reach.length) whole = Math.max(whole, lane.reach[lane.reach.length - 1]);
    }
    this.whole = whole;
    this.to = whole;
    this.height = top + 6;
    this.matching = new Uint8Array(section.names.length).fill(1);
    this.canvas.style.height = `${this.height}px`;
    this.holder = element("div", {
      class: "timeline-view",
      tabindex: 0,
      role: "application",
      "aria-roledescription": "timeline",
      "aria-label": this.label(),
    }, this.canvas, this.tip);
    made.body.append(this.holder, this.legend());
    this.addTools(made);
    this.listen();
    this.colours = palette();
    new ResizeObserver(() => this.later()).observe(this.holder);
    this.draw();
  }

  redraw(): void {
    this.colours = palette();
    this.draw();
  }

  *rows(): Iterable<(string | number)[]> {
    const { names, classes, tick_s } = this.section;
    for (const { track, begin } of this.lanes) {
      for (let i = 0; i < begin.length; ++i) {
        yield [track.group, track.name, names[track.name_of[i]], classes[track.class_of[i]], begin[i] * tick_s, track.length[i] * tick_s];
      }
    }
  }

  private label(): string {
    const slices = this.lanes.reduce((sum, lane) => sum + lane.begin.length, 0);
    return `${this.section.title}: ${this.lanes.length} tracks, ${slices} slices over ${this.seconds(this.whole)}. Left and right move, plus and minus zoom, N and P go from slice to slice, up and down from track to track.`;
  }

  private seconds(ticks: number): string {
    return show(ticks * this.section.tick_s, "s");
  }

  /** A place on the ruler, in the unit of the whole, with the digits that tell it from its neighbours. */
  private placeName(tick: number, step: number): string {
    const { tick_s } = this.section;
    const scale = scaleOf(this.to * tick_s, "s");
    const decimals = Math.max(0, -Math.floor(Math.log10((step * tick_s) / scale.factor) + 1e-9));
    return `${((tick * tick_s) / scale.factor).toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals })} ${scale.unit}`;
  }

  private legend(): HTMLElement {
    const used = new Set<number>();
    for (const { track } of this.lanes) for (const c of track.class_of) used.add(c);
    const entries = [...used].sort((a, b) => a - b).map((c) =>
      element("li", {}, element("span", { class: `key c${colourOf(this.section.classes[c], c)}` }), this.section.classes[c]),
    );
    return element("ul", { class: "legend" }, ...entries);
  }

  private addTools(made: Frame): void {
    const title = this.section.title;
    const find = element("input", {
      type: "search",
      placeholder: "Find a slice",
      "aria-label": `Find slices of "${title}" by name`,
    });
    find.addEventListener("input", () => this.search(find.value));
    find.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.step(1);
    });
    made.tools.prepend(
      find,
      button("\u2190", `Move "${title}" left`, () => this.move(-0.3)),
      button("\u2192", `Move "${title}" right`, () => this.move(0.3)),
      button("+", `Zoom into "${title}"`, () => this.zoom(0.5)),
      button("\u2212", `Zoom out of "${title}"`, () => this.zoom(2)),
      button("All", `Show all of "${title}"`, () => this.show(0, this.whole)),
    );
  }

  private search(words: string): void {
    this.wanted = words.toLowerCase();
    this.section.names.forEach((name, i) => {
      this.matching[i] = name.toLowerCase().includes(this.wanted) ? 1 : 0;
    });
    if (this.wanted) {
      let count = 0;
      let ticks = 0;
      for (const { track } of this.lanes) {
        for (let i = 0; i < track.name_of.length; ++i) {
          if (!this.matching[track.name_of[i]]) continue;
          count += 1;
          ticks += track.length[i];
        }
      }
      announce(`${count} slices, ${this.seconds(ticks)} in all; Enter goes to the next`);
    }
    this.later();
  }

  private show(from: number, to: number): void {
    const span = Math.min(this.whole, Math.max(to - from, 50));
    this.from = Math.min(Math.max(0, from), this.whole - span);
    this.to = this.from + span;
    this.later();
  }

  private move(part: number): void {
    const by = (this.to - this.from) * part;
    this.show(this.from + by, this.to + by);
  }

  private zoom(factor: number, at = (this.from + this.to) / 2): void {
    this.show(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }

  private get left(): number {
    return this.holder.clientWidth < 560 ? 84 : 148;
  }

  private tickAt(x: number): number {
    return this.from + ((x - this.left) / (this.holder.clientWidth - this.left)) * (this.to - this.from);
  }

  private listen(): void {
    const holder = this.holder;
    const fingers = new Map<number, number>();
    let moved = 0;
    holder.addEventListener("wheel", (event) => {
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault();
        this.zoom(Math.exp(event.deltaY * 0.0025), this.tickAt(this.placeOf(event).x));
      } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        event.preventDefault();
        this.move((event.deltaX || event.deltaY) / this.holder.clientWidth);
      }
    }, { passive: false });
    holder.addEventListener("pointerdown", (event) => {
      fingers.set(event.pointerId, event.clientX);
      moved = 0;
      holder.setPointerCapture(event.pointerId);
    });
    holder.addEventListener("pointermove", (event) => {
      const before = fingers.get(event.pointerId);
      if (before === undefined) return this.hover(event);
      const wide = holder.clientWidth - this.left;
      if (fingers.size === 2) {
        const [other] = [...fingers.entries()].filter(([id]) => id !== event.pointerId).map(([, x]) => x);
        const apart = Math.abs(event.clientX - other);
        if (apart > 8) this.zoom(Math.abs(before - other) / apart);
      } else {
        const by = ((before - event.clientX) / wide) * (this.to - this.from);
        moved += Math.abs(before - event.clientX);
        this.show(this.from + by, this.to + by);
      }
      fingers.set(event.pointerId, event.clientX);
    });
    const lift = (event: PointerEvent) => {
      if (fingers.delete(event.pointerId) && moved < 4 && event.type === "pointerup") this.pick(this.find(event));
    };
    holder.addEventListener("pointerup", lift);
    holder.addEventListener("pointercancel", lift);
    holder.addEventListener("pointerleave", () => {
      this.tip.hidden = true;
    });
    holder.addEventListener("dblclick", (event) => this.zoom(0.25, this.tickAt(this.placeOf(event).x)));
    holder.addEventListener("keydown", (event) => this.key(event));
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const acts: Record<string, () => void> = {
      ArrowLeft: () => this.move(-0.15),
      ArrowRight: () => this.move(0.15),
      a: () => this.move(-0.15),
      d: () => this.move(0.15),
      "+": () => this.zoom(0.6),
      "=": () => this.zoom(0.6),
      w: () => this.zoom(0.6),
      "-": () => this.zoom(1.6),
      s: () => this.zoom(1.6),
      Home: () => this.show(0, this.whole),
      n: () => this.step(1),
      p: () => this.step(-1),
      ArrowDown: () => this.turn(1),
      ArrowUp: () => this.turn(-1),
      Escape: () => this.pick(null),
    };
    const act = acts[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  /** To the next slice, or the one before it, that the search wants; on to other tracks. */
  private step(by: 1 | -1): void {
    let lane = this.picked ? this.lanes.indexOf(this.picked.lane) : by > 0 ? 0 : this.lanes.length - 1;
    let index = this.picked ? this.picked.index + by : by > 0 ? firstReaching(this.lanes[0], this.from) : -1;
    for (let tried = 0; tried <= this.lanes.length; ++tried) {
      const { track } = this.lanes[lane];
      if (index === -1 && tried > 0 && by < 0) index = track.name_of.length - 1;
      for (; index >= 0 && index < track.name_of.length; index += by) {
        if (this.matching[track.name_of[index]]) return this.pick({ lane: this.lanes[lane], index }, true);
      }
      lane = (lane + by + this.lanes.length) % this.lanes.length;
      index = by > 0 ? 0 : -1;
    }
  }

  /** To what runs at the same time on another track. */
  private turn(by: 1 | -1): void {
    const begin = this.picked ? this.picked.lane.begin[this.picked.index] : this.from;
    let at = this.picked ? this.lanes.indexOf(this.picked.lane) : by > 0 ? -1 : this.lanes.length;
    do at += by;
    while (this.lanes[at] && this.lanes[at].begin.length === 0);
    const lane = this.lanes[at];
    if (lane) this.pick({ lane, index: Math.min(firstReaching(lane, begin), lane.begin.length - 1) }, true);
  }

  private pick(picked: Picked | null, follow = false): void {
    this.picked = picked;
    if (picked) {
      const begin = picked.lane.begin[picked.index];
      const end = picked.lane.end[picked.index];
      if (follow && (begin < this.from || end > this.to)) {
        const span = this.to - this.from;
        this.show((begin + end - span) / 2, (begin + end + span) / 2);
      }
      announce(this.words(picked).join("; "));
      this.draw();
      const y = picked.lane.top + picked.lane.level[picked.index] * kLevel;
      if (follow) this.place(Math.max(this.left, this.xOf(begin)), y + kLevel, picked);
    }
    this.later();
  }

  private words({ lane, index }: Picked): string[] {
    const { names, classes } = this.section;
    return [
      names[lane.track.name_of[index]],
      `${classes[lane.track.class_of[index]]}, on ${lane.track.group} ${lane.track.name}`,
      `takes ${this.seconds(lane.track.length[index])}`,
      `begins at ${this.seconds(lane.begin[index])}`,
    ];
  }

  private placeOf(event: MouseEvent): { x: number; y: number } {
    const box = this.canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  private find(event: MouseEvent): Picked | null {
    const { x, y } = this.placeOf(event);
    const lane = this.lanes.find((l) => y >= l.top && y < l.top + l.height);
    if (!lane || x < this.left) return null;
    const level = Math.floor((y - lane.top) / kLevel);
    const pixel = (this.to - this.from) / (this.holder.clientWidth - this.left);
    const tick = this.tickAt(x);
    let best: Picked | null = null;
    for (let i = firstReaching(lane, tick - pixel); i < lane.begin.length && lane.begin[i] <= tick + pixel; ++i) {
      if (lane.level[i] === level && lane.end[i] >= tick - pixel) best = { lane, index: i };
      if (best && lane.begin[i] > tick) break;
    }
    return best;
  }

  private hover(event: PointerEvent): void {
    const found = this.find(event);
    const { x, y } = this.placeOf(event);
    if (found) this.place(x + 12, y + 14, found);
    else this.tip.hidden = true;
  }

  private place(x: number, y: number, picked: Picked): void {
    const [title, ...lines] = this.words(picked);
    this.tip.replaceChildren(element("strong", {}, title), ...lines.map((line) => element("div", {}, line)));
    this.tip.hidden = false;
    this.tip.style.left = `${Math.max(0, Math.min(x, this.holder.clientWidth - this.tip.offsetWidth - 4))}px`;
    this.tip.style.top = `${y}px`;
  }

  private xOf(tick: number): number {
    return this.left + ((tick - this.from) / (this.to - this.from)) * (this.holder.clientWidth - this.left);
  }

  private later(): void {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  private draw(): void {
    const wide = this.holder.clientWidth;
    const ratio = Math.max(devicePixelRatio, 1.5);
    if (wide === 0) return;
    if (this.canvas.width !== Math.round(wide * ratio)) {
      this.canvas.width = Math.round(wide * ratio);
      this.canvas.height = Math.round(this.height * ratio);
    }
    const pen = this.canvas.getContext("2d");
    if (!pen) return;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, wide, this.height);
    this.drawRuler(pen, wide);
    for (const lane of this.lanes) this.drawLane(pen, lane, wide);
    this.drawLabels(pen);
  }

  private drawRuler(pen: CanvasRenderingContext2D, wide: number): void {
    const step = niceStep(this.to - this.from, Math.max(2, (wide - this.left) / 110));
    pen.font = "11.5px system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.fillStyle = colour("--soft");
    pen.strokeStyle = colour("--line");
    pen.lineWidth = 1;
    for (let tick = Math.ceil(this.from / step) * step; tick <= this.to; tick += step) {
      const x = Math.round(this.xOf(tick)) + 0.5;
      pen.beginPath();
      pen.moveTo(x, kRuler - 6);
      pen.lineTo(x, this.height);
      pen.stroke();
      const text = this.placeName(tick, step);
      if (x + pen.measureText(text).width < wide) pen.fillText(text, x + 4, kRuler / 2 - 1);
    }
  }

  private drawLane(pen: CanvasRenderingContext2D, lane: Lane, wide: number): void {
    const { track, begin, end, level } = lane;
    const names = this.section.names;
    const perTick = (wide - this.left) / (this.to - this.from);
    const painted = new Float64Array(kMostLevels).fill(-1);
    pen.save();
    pen.beginPath();
    pen.rect(this.left, lane.top, wide - this.left, lane.height);
    pen.clip();
    for (let i = firstReaching(lane, this.from); i < begin.length && begin[i] < this.to; ++i) {
      if (end[i] < this.from) continue;
      const x = this.left + (begin[i] - this.from) * perTick;
      const right = this.left + (end[i] - this.from) * perTick;
      // Slices thinner than a pixel share it: one of them is drawn.
      if (right < painted[level[i]]) continue;
      const shown = Math.max(x, this.left - 2);
      const width = Math.max(0.6, Math.min(right, wide + 2) - shown - (right - x > 3 ? 0.6 : 0));
      painted[level[i]] = Math.floor(shown + width) + 0.5;
      const y = lane.top + level[i] * kLevel;
      pen.globalAlpha = this.matching[track.name_of[i]] ? 1 : 0.15;
      pen.fillStyle = this.colours[this.colourOfClass[track.class_of[i]]];
      pen.fillRect(shown, y, width, kLevel - 1.5);
      if (width > 34 && pen.globalAlpha === 1) this.drawName(pen, names[track.name_of[i]], shown, y, width);
    }
    pen.globalAlpha = 1;
    if (this.picked?.lane === lane) {
      const i = this.picked.index;
      const x = this.xOf(begin[i]);
      pen.strokeStyle = colour("--ink");
      pen.lineWidth = 2;
      pen.strokeRect(x - 1, lane.top + level[i] * kLevel - 0.5, Math.max(3, (end[i] - begin[i]) * perTick) + 1, kLevel);
    }
    pen.restore();
  }

  private drawName(pen: CanvasRenderingContext2D, text: string, x: number, y: number, width: number): void {
    pen.fillStyle = colour("--on-colour");
    pen.font = "11px system-ui, sans-serif";
    const fits = Math.floor((width - 8) / 5.9);
    const cut = text.length > fits ? `${text.slice(0, Math.max(1, fits - 1))}\u2026` : text;
    pen.fillText(cut, x + 4, y + kLevel / 2 - 0.5);
  }

  private drawLabels(pen: CanvasRenderingContext2D): void {
    const cut = (text: string, room: number) => {
      let shown = text;
      while (shown.length > 1 && pen.measureText(shown).width > room) shown = `${shown.slice(0, -2)}\u2026`;
      return shown;
    };
    pen.fillStyle = colour("--ink");
    pen.font = "12px system-ui, sans-serif";
    for (const lane of this.lanes) {
      pen.fillText(cut(lane.track.name, this.left - 12), 4, lane.top + kLevel / 2);
    }
    pen.font = "600 11.5px system-ui, sans-serif";
    pen.fillStyle = colour("--soft");
    for (const group of this.groups) pen.fillText(cut(group.name, this.holder.clientWidth - 8), 4, group.top + 11);
  }
}

export function drawTimeline(section: TimelineSection, made: Frame): Drawn {
  const view = new TimelineView(section, made);
  if (section.cut) made.body.append(element("p", { class: "note" }, section.cut));
  return {
    header: ["group", "track", "name", "class", "begin_s", "duration_s"],
    rows: () => view.rows(),
    redraw: () => view.redraw(),
  };
}
