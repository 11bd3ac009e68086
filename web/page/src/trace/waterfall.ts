// The rows of the waterfall. Only those that can be seen are in the document: a pool of rows is filled again while
// somebody scrolls. Plain DOM: a component for each row costs a third more of a frame.
import { elapsedTicks } from '../charts/axis';
import { duration } from '../ui/format';
import { visible } from '../ui/text';
import type { Stretch } from './critical_path';
import { hueOf, isError, nameOf, serviceOf, type Trace } from './rows';

export const ROW_HEIGHT = 24;
const SPARE = 6;
const MAX_INDENT = 24;
const RULER_HEIGHT = 24;
const MAX_TICKS = 6;
const LABEL_WIDTH = 64; // of a duration, with its margins

export interface Picture {
  trace: Trace;
  /** Indices of rows, in order. */
  shown: readonly number[];
  closed: ReadonlySet<number>;
  selected: number | null;
  found: ReadonlySet<number> | null;
  critical: readonly Stretch[] | null;
  fromNs: number;
  toNs: number;
}

interface Slot {
  row: HTMLElement;
  toggle: HTMLElement;
  name: HTMLElement;
  closed: HTMLElement;
  service: HTMLElement;
  bar: HTMLElement;
  critical: HTMLElement;
  took: HTMLElement;
  at: number;
}

export class Waterfall {
  private readonly ruler = document.createElement('div');
  private readonly sizer = document.createElement('div');
  private readonly rules = document.createElement('div');
  private readonly slots: Slot[] = [];
  private picture: Picture | null = null;
  private criticalOf = new Map<number, [number, number]>();
  private frame = 0;
  /** Pixels of the lane in which the bars are, as they were drawn; 0: they have to be drawn again. */
  private lane = 0;
  private readonly resizes = new ResizeObserver(() => this.schedule());

  constructor(
    private readonly element: HTMLElement,
    private readonly onSelect: (at: number) => void,
    private readonly onToggle: (at: number) => void,
  ) {
    this.sizer.className = 'sizer';
    this.sizer.setAttribute('role', 'presentation');
    this.ruler.className = 'ruler';
    this.rules.className = 'rules';
    // The durations beside the bars are what a reader of a screen gets.
    for (const hidden of [this.ruler, this.rules]) hidden.setAttribute('aria-hidden', 'true');
    this.sizer.append(this.rules);
    element.replaceChildren(this.ruler, this.sizer);
    element.addEventListener('scroll', this.schedule, { passive: true });
    element.addEventListener('click', this.clicked);
    this.resizes.observe(element);
  }

  close(): void {
    this.element.removeEventListener('scroll', this.schedule);
    this.element.removeEventListener('click', this.clicked);
    this.resizes.disconnect();
    cancelAnimationFrame(this.frame);
  }

  show(picture: Picture): void {
    const isZoomed = picture.fromNs !== this.picture?.fromNs || picture.toNs !== this.picture.toNs;
    if (isZoomed) this.lane = 0;
    this.picture = picture;
    this.criticalOf = new Map();
    for (const one of picture.critical ?? []) {
      const known = this.criticalOf.get(one.row);
      this.criticalOf.set(
        one.row,
        known === undefined ? [one.fromNs, one.toNs] : [Math.min(known[0], one.fromNs), Math.max(known[1], one.toNs)],
      );
    }
    this.sizer.style.height = `${picture.shown.length * ROW_HEIGHT}px`;
    this.element.style.setProperty('--content', `${RULER_HEIGHT + picture.shown.length * ROW_HEIGHT + 2}px`);
    for (const slot of this.slots) slot.at = -1;
    this.draw();
  }

  /** Scrolls so that a row can be seen. */
  reveal(at: number): void {
    const index = this.picture?.shown.indexOf(at) ?? -1;
    if (index < 0) return;
    const top = index * ROW_HEIGHT;
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (RULER_HEIGHT + top + ROW_HEIGHT > scrollTop + clientHeight) {
      this.element.scrollTop = RULER_HEIGHT + top + ROW_HEIGHT - clientHeight;
    }
    this.draw();
  }

  private readonly schedule = (): void => {
    if (this.frame !== 0) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  };

  private readonly clicked = (event: MouseEvent): void => {
    const target = event.target as HTMLElement;
    const slot = this.slots.find((one) => one.row.contains(target));
    if (slot === undefined || slot.at < 0) return;
    if (slot.toggle.contains(target)) this.onToggle(slot.at);
    else this.onSelect(slot.at);
  };

  /** When the left end is and round times from it, above the bars; lines from them down. */
  private drawRuler({ fromNs, toNs }: Picture): void {
    const most = Math.max(1, Math.min(MAX_TICKS, Math.floor(this.lane / LABEL_WIDTH)));
    const ticks = elapsedTicks(fromNs, toNs, most);
    const placed = (text: string, at: number): HTMLElement => {
      const made = document.createElement('span');
      made.textContent = text;
      made.style.left = `${at * 100}%`;
      return made;
    };
    const labels = ticks.filter((tick) => this.hasRoom(1 - tick.at)).map((tick) => placed(tick.label, tick.at));
    this.ruler.replaceChildren(placed(duration(fromNs / 1e6), 0), ...labels);
    this.rules.replaceChildren(...ticks.map((tick) => placed('', tick.at)));
  }

  /** Whether a label fits into a share of the lane. */
  private hasRoom(part: number): boolean {
    return part * this.lane >= LABEL_WIDTH;
  }

  private draw(): void {
    const picture = this.picture;
    if (picture === null) return;
    if (this.lane !== this.ruler.clientWidth) {
      this.lane = this.ruler.clientWidth;
      this.drawRuler(picture);
      for (const slot of this.slots) slot.at = -1;
    }
    const first = Math.max(0, Math.floor(this.element.scrollTop / ROW_HEIGHT) - SPARE);
    const wanted = Math.ceil(this.element.clientHeight / ROW_HEIGHT) + 2 * SPARE;
    const last = Math.min(picture.shown.length, first + wanted);
    while (this.slots.length < wanted) this.slots.push(this.makeSlot());
    for (let index = first; index < first + this.slots.length; index++) {
      const slot = this.slots[index % this.slots.length];
      if (slot === undefined) continue;
      if (index >= last) {
        slot.row.hidden = true;
        slot.row.removeAttribute('id'); // another slot may have the row now
        slot.at = -1;
      } else this.fill(slot, index, picture);
    }
  }

  private fill(slot: Slot, index: number, picture: Picture): void {
    const at = picture.shown[index] ?? 0;
    if (slot.at === at) return;
    slot.at = at;
    const { trace } = picture;
    const { columns } = trace.data;
    const depth = columns.depth[at] ?? 0;
    const took = columns.durationNs[at] ?? 0;
    const start = columns.startOffsetNs[at] ?? 0;
    const children = columns.children[at] ?? 0;
    const service = serviceOf(trace, at);
    const failed = isError(trace, at);
    const isOpen = !picture.closed.has(at);
    const row = slot.row;
    row.hidden = false;
    row.id = `row-${at}`;
    row.style.transform = `translateY(${index * ROW_HEIGHT}px)`;
    row.setAttribute('aria-level', String(depth + 1));
    row.setAttribute('aria-rowindex', String(index + 1));
    row.setAttribute('aria-selected', String(picture.selected === at));
    if (children > 0) row.setAttribute('aria-expanded', String(isOpen));
    else row.removeAttribute('aria-expanded');
    row.classList.toggle('dim', picture.found !== null && !picture.found.has(at));
    const label = slot.name.parentElement;
    if (label !== null) label.style.paddingLeft = `${4 + Math.min(depth, MAX_INDENT) * 12}px`;
    slot.toggle.className = children === 0 ? 'toggle' : isOpen ? 'toggle open' : 'toggle closed';
    const hidden = isOpen ? 0 : (trace.end[at] ?? at + 1) - at - 1;
    slot.closed.textContent = hidden > 0 ? `(${hidden} hidden)` : '';
    const marks = [failed ? '! error' : '', columns.orphan[at] ? 'orphan' : ''];
    slot.name.textContent = [visible(nameOf(trace, at)), ...marks.filter((mark) => mark !== '')].join(' ');
    slot.name.classList.toggle('error', failed);
    slot.service.textContent = visible(service);
    slot.took.textContent = duration(took / 1e6);
    const length = Math.max(1, picture.toNs - picture.fromNs);
    const left = ((start - picture.fromNs) / length) * 100;
    const width = (took / length) * 100;
    slot.bar.style.left = `${left}%`;
    slot.bar.style.width = `${Math.max(0, width)}%`;
    slot.bar.style.background = hueOf(trace, service);
    slot.bar.classList.toggle('failed', failed);
    const right = left + width;
    // Behind the bar, before it, or where neither has room, on it.
    const isBehind = this.hasRoom(1 - right / 100);
    const isBefore = !isBehind && this.hasRoom(left / 100);
    slot.took.style.left = isBefore ? '' : `${isBehind ? Math.max(0, right) : Math.max(1, left + 1)}%`;
    slot.took.style.right = isBefore ? `${100 - Math.min(100, left)}%` : '';
    slot.took.classList.toggle('inside', !isBehind && !isBefore);
    const critical = this.criticalOf.get(at);
    slot.critical.hidden = critical === undefined;
    if (critical !== undefined) {
      slot.critical.style.left = `${((critical[0] - picture.fromNs) / length) * 100}%`;
      slot.critical.style.width = `${((critical[1] - critical[0]) / length) * 100}%`;
    }
  }

  private makeSlot(): Slot {
    const make = (name: string, parent: HTMLElement, role?: string): HTMLElement => {
      const made = document.createElement('div');
      made.className = name;
      if (role !== undefined) made.setAttribute('role', role);
      parent.append(made);
      return made;
    };
    const row = make('row', this.sizer, 'row');
    const label = make('label', row, 'gridcell');
    const toggle = make('toggle', label);
    toggle.setAttribute('aria-hidden', 'true');
    const service = make('service', label);
    const name = make('name', label);
    const closed = make('hides', label);
    const lane = make('lane', row, 'gridcell');
    const bar = make('bar', lane);
    const critical = make('critical', lane);
    const took = make('took', lane);
    return { row, toggle, name, closed, service, bar, critical, took, at: -1 };
  }
}
