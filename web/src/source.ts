// Where the data comes from: elements of this page, or the server that sent it.

import type { Direction, PackedRow } from "./rows";

export interface RecordingInfo {
  name: string;
  started: string;
  agent: string[];
  size: number;
  frames: number;
  damaged: number;
  is_cut: boolean;
  contents: number | null;
}

export interface Content {
  text: string;
  characters: number;
}

export interface MethodFigures {
  method: string;
  count: number;
  errors: number;
  p50: number;
  p99: number;
  longest: number;
}

export interface Statistics {
  seconds: number;
  frames: Record<string, number>;
  bytes: number;
  problems: number;
  missing: number;
  unanswered: number;
  first_update: number | null;
  updates_per_second: number;
  permission_wait: number;
  longest_silence: number;
  methods: MethodFigures[];
}

/** One thing that happened in a conversation: `ConversationRow` in src/duologue/inspector/conversation_rows.py. */
export interface Item {
  number: number;
  t: number;
  kind: string;
  session?: string;
  role?: string;
  text?: string;
  characters?: number;
  continues?: boolean;
  title?: string;
  tool_kind?: string;
  status?: string;
  options?: string[];
  changes?: [path: string, operation: string][];
  entries?: [text: string, status: string][];
  seconds?: number;
}

/** A step of two recordings or of one: `DiffRow` in src/duologue/inspector/diff_rows.py. */
export interface DiffRow {
  kind: "same" | "changed" | "only_a" | "only_b";
  a?: number;
  b?: number;
  count?: number;
  dir?: Direction;
  name?: string;
  is_answer?: boolean;
  paths?: [path: string, a: string | null, b: string | null][];
}

export interface RecordingDiff {
  rows: DiffRow[];
  counts: Partial<Record<DiffRow["kind"], number>>;
  is_cut: boolean;
  is_approximate: boolean;
}

export interface Recording {
  name: string;
  size: number;
  modified: number;
}

export interface RowPage {
  rows: PackedRow[];
  /** No more rows for now. */
  isEnd: boolean;
  info: RecordingInfo;
}

export interface Source {
  /** The recordings to choose from; empty if there is only the one of this page. */
  recordings(): Promise<Recording[]>;
  /** Rows from an index on; a source that follows a file waits for more until the signal ends it. */
  rows(recording: string, start: number, mayWait: boolean, signal: AbortSignal): Promise<RowPage>;
  content(recording: string, index: number, number: number): Promise<Content | null>;
  statistics(recording: string): Promise<Statistics>;
  /** Numbers of the frames whose content has the text, a part at a time. */
  search(recording: string, text: string, signal: AbortSignal): AsyncIterable<number[]>;
  /** Items from an index on; none if there are no more for now. */
  conversation(recording: string, start: number): Promise<Item[]>;
  diff(first: string, second: string): Promise<RecordingDiff>;
  readonly isLive: boolean;
}

const PAGE = 1000;

function element(name: string): HTMLElement | null {
  return document.getElementById(`data-${name}`);
}

async function unpacked<T>(name: string): Promise<T | null> {
  const found = element(name);
  if (!found) return null;
  const binary = atob(found.textContent ?? "");
  const bytes = Uint8Array.from(binary, (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text()) as T;
}

/** Data in the page itself. */
export class EmbeddedSource implements Source {
  readonly isLive = false;
  private info: RecordingInfo | null = null;
  private cached: { part: number; contents: Content[] | null } = { part: -1, contents: null };

  static isHere(): boolean {
    return element("info") !== null;
  }

  async recordings(): Promise<Recording[]> {
    return [];
  }

  async rows(_: string, start: number): Promise<RowPage> {
    this.info ??= (await unpacked<RecordingInfo>("info"))!;
    const rows = (await unpacked<PackedRow[]>(`rows-${Math.floor(start / PAGE)}`)) ?? [];
    return { rows, isEnd: start + rows.length >= this.info.frames, info: this.info };
  }

  async content(_: string, index: number): Promise<Content | null> {
    const contents = await this.part(Math.floor(index / PAGE));
    return contents?.[index % PAGE] ?? null;
  }

  async statistics(): Promise<Statistics> {
    return (await unpacked<Statistics>("statistics"))!;
  }

  async *search(_: string, text: string, signal: AbortSignal): AsyncIterable<number[]> {
    const wanted = text.toLowerCase();
    for (let part = 0; !signal.aborted; part += 1) {
      const contents = await this.part(part);
      if (!contents) return;
      const rows = (await unpacked<PackedRow[]>(`rows-${part}`)) ?? [];
      yield rows.filter((_, index) => contents[index]?.text.toLowerCase().includes(wanted)).map((row) => row[0]);
    }
  }

  async conversation(_: string, start: number): Promise<Item[]> {
    if (start % PAGE) return [];
    return (await unpacked<Item[]>(`conversation-${start / PAGE}`)) ?? [];
  }

  async diff(): Promise<RecordingDiff> {
    throw new Error("This page has only one recording.");
  }

  private async part(part: number): Promise<Content[] | null> {
    if (this.cached.part !== part) {
      this.cached = { part, contents: await unpacked<Content[]>(`contents-${part}`) };
    }
    return this.cached.contents;
  }
}

const TOKEN = "duologue-token";
const WAIT_SECONDS = 15;

/** Take the token out of the address, so that it is in no history; the tab remembers it for a reload. */
function takeToken(): string {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  try {
    if (given) sessionStorage.setItem(TOKEN, given);
    if (given) history.replaceState(null, "", location.pathname);
    return given ?? sessionStorage.getItem(TOKEN) ?? "";
  } catch {
    return given ?? "";
  }
}

/** Data from the server that sent this page. */
export class ServerSource implements Source {
  readonly isLive = true;
  private readonly token = takeToken();

  async recordings(): Promise<Recording[]> {
    if (!this.token) throw new Error("The address has no token. Open the one that `duologue trace serve` printed.");
    return (await this.get<{ recordings: Recording[] }>("recordings", {})).recordings;
  }

  async rows(recording: string, start: number, mayWait: boolean, signal: AbortSignal): Promise<RowPage> {
    const wait = mayWait ? WAIT_SECONDS : 0;
    const page = await this.get<{ rows: PackedRow[]; is_end: boolean; info: RecordingInfo }>("rows", { recording, start, wait }, signal);
    return { rows: page.rows, isEnd: page.is_end, info: page.info };
  }

  async content(recording: string, _: number, number: number): Promise<Content | null> {
    return (await this.get<{ content: Content | null }>("content", { recording, number })).content;
  }

  statistics(recording: string): Promise<Statistics> {
    return this.get("statistics", { recording });
  }

  async *search(recording: string, text: string, signal: AbortSignal): AsyncIterable<number[]> {
    for (let first: number | null = 1; first !== null && !signal.aborted; ) {
      const part: { numbers: number[]; next: number | null } = await this.get("search", { recording, text, first }, signal);
      yield part.numbers;
      first = part.next;
    }
  }

  async conversation(recording: string, start: number): Promise<Item[]> {
    return (await this.get<{ items: Item[] }>("conversation", { recording, start })).items;
  }

  diff(first: string, second: string): Promise<RecordingDiff> {
    return this.get("diff", { first, second });
  }

  private async get<T>(path: string, parameters: Record<string, string | number>, signal?: AbortSignal): Promise<T> {
    const query = new URLSearchParams(Object.entries(parameters).map(([name, value]) => [name, String(value)]));
    const headers = { Authorization: `Bearer ${this.token}` };
    const response = await fetch(`/api/${path}?${query}`, { headers, signal: signal ?? null, cache: "no-store" });
    if (response.status === 401) throw new Error("The token is not valid: the server was started again. Open its new address.");
    if (!response.ok) throw new Error((await response.text()).slice(0, 500).trim() || `The server answered ${response.status}`);
    return (await response.json()) as T;
  }
}
