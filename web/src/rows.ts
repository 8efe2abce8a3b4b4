// Rows: what the lists show of a frame. Python decides what a frame means; here it is only unpacked.

export type Kind = "request" | "response" | "error" | "notification" | "invalid" | "stderr" | "exit" | "gap";
export type Direction = "to_agent" | "to_client" | "";

export interface Problem {
  path: string;
  message: string;
  isTolerated: boolean;
}

// The order is that of `FrameRow` in src/duologue/inspector/rows.py.
export type PackedRow = [
  number: number,
  t: number,
  dir: Direction,
  kind: Kind,
  method: string,
  update: string,
  id: number | string | null,
  session: string,
  size: number,
  latency: number | null,
  answers: number | null,
  preview: string,
  problems: [string, string, boolean][],
  unknown: string[],
];

export interface Row {
  number: number;
  t: number;
  dir: Direction;
  kind: Kind;
  method: string;
  update: string;
  id: number | string | null;
  session: string;
  size: number;
  latency: number | null;
  answers: number | null;
  /** Number of the response to this request, as soon as it is known. */
  answer: number | null;
  preview: string;
  problems: Problem[];
  /** Paths of members that the schema does not know. */
  unknown: string[];
}

export const NO_PROBLEMS: Problem[] = [];
const NOTHING_UNKNOWN: string[] = [];

export function unpack(packed: PackedRow): Row {
  const [number, t, dir, kind, method, update, id, session, size, latency, answers, preview, problems, unknown] = packed;
  return {
    number,
    t,
    dir,
    kind,
    method,
    update,
    id,
    session,
    size,
    latency,
    answers,
    answer: null,
    preview,
    problems: problems.length
      ? problems.map(([path, message, isTolerated]) => ({ path, message, isTolerated }))
      : NO_PROBLEMS,
    unknown: unknown.length ? unknown : NOTHING_UNKNOWN,
  };
}

/** All rows of a recording so far, in the order of their numbers. */
export class RowStore {
  rows: Row[] = [];
  methods = new Map<string, number>();
  sessions = new Map<string, number>();
  kinds = new Map<Kind, number>();
  problems = 0;

  add(packed: PackedRow[]): void {
    for (const each of packed) {
      const row = unpack(each);
      this.rows.push(row);
      count(this.kinds, row.kind);
      if (row.method) count(this.methods, row.method);
      if (row.session) count(this.sessions, row.session);
      if (row.problems.length) this.problems += 1;
      if (row.answers !== null) {
        const request = this.get(row.answers);
        if (request) request.answer = row.number;
      }
    }
  }

  get(number: number): Row | undefined {
    const index = this.indexOf(number);
    return index < 0 ? undefined : this.rows[index];
  }

  /** Numbers have gaps if the page was written with a filter. */
  indexOf(number: number): number {
    const guess = this.rows[number - 1];
    if (guess?.number === number) return number - 1;
    let low = 0;
    let high = this.rows.length - 1;
    while (low <= high) {
      const middle = (low + high) >> 1;
      const found = this.rows[middle]!.number;
      if (found === number) return middle;
      if (found < number) low = middle + 1;
      else high = middle - 1;
    }
    return -1;
  }
}

function count<T>(counts: Map<T, number>, key: T): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}

/** The name of a row: its method, with the kind of an update. */
export function nameOf(row: Row): string {
  if (row.update) return row.update;
  return row.method || row.kind;
}
