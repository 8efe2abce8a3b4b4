import { VirtualList } from "../list";
import { nameOf, type Row } from "../rows";
import { bytes, duration, plain, seconds } from "../text";

export interface ListProps {
  rows: Row[];
  indices: number[];
  /** Position of the selected row in `indices`, or -1. */
  selected: number;
  isNarrow: boolean;
  isFollowing: boolean;
  onSelect: (number: number) => void;
}

export const ARROWS = { to_agent: "→", to_client: "←", "": "" };

export function Timeline({ rows, indices, selected, isNarrow, isFollowing, onSelect }: ListProps) {
  const at = (position: number) => rows[indices[position]!]!;
  return (
    <>
      <div class="columns" aria-hidden="true">
        <span class="number">#</span>
        <span class="time">seconds</span>
        <span class="arrow" />
        <span class="name">message</span>
        <span class="preview">content</span>
        <span class="latency">latency</span>
        <span class="size">size</span>
      </div>
      <VirtualList
        class="timeline"
        count={indices.length}
        rowHeight={isNarrow ? 52 : 28}
        selected={selected}
        label="Frames"
        isFollowing={isFollowing}
        onSelect={(position) => onSelect(at(position).number)}
        rowClass={(position) => classOf(at(position))}
        render={(position) => <TimelineRow row={at(position)} />}
      />
    </>
  );
}

export function classOf(row: Row): string {
  const isWrong = row.problems.some((problem) => !problem.isTolerated);
  return `${row.dir || "aside"} ${row.kind}${isWrong ? " wrong" : row.problems.length ? " doubtful" : ""}`;
}

function TimelineRow({ row }: { row: Row }) {
  return (
    <>
      <span class="number">{row.number}</span>
      <span class="time">{seconds(row.t)}</span>
      <span class="arrow">{ARROWS[row.dir]}</span>
      <span class="name">
        <span class={`kind ${row.kind}`}>{KINDS[row.kind]}</span> <bdi>{plain(nameOf(row))}</bdi>
      </span>
      <span class="preview">
        <bdi>{plain(row.preview)}</bdi>
      </span>
      <span class="latency">{row.latency === null ? "" : duration(row.latency)}</span>
      <span class="size">{row.size ? bytes(row.size) : ""}</span>
    </>
  );
}

/** Short names of the kinds, of equal width. */
export const KINDS = {
  request: "req",
  response: "res",
  error: "err",
  notification: "ntf",
  invalid: "bad",
  stderr: "log",
  exit: "end",
  gap: "gap",
};
