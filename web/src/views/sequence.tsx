import { useMemo } from "preact/hooks";
import { VirtualList } from "../list";
import { nameOf, type Row } from "../rows";
import { duration, number, plain, seconds } from "../text";
import { classOf, type ListProps } from "./timeline";

/** Consecutive rows of a stream are one arrow: [position of the first, number of rows]. */
type Group = [first: number, count: number];

function groupsOf(rows: Row[], indices: number[]): Group[] {
  const groups: Group[] = [];
  let before: Row | null = null;
  indices.forEach((index, position) => {
    const row = rows[index]!;
    const group = groups.at(-1);
    const isSame =
      before !== null &&
      row.kind === before.kind &&
      (row.kind === "notification" || row.kind === "stderr") &&
      row.dir === before.dir &&
      row.method === before.method &&
      row.update === before.update &&
      row.session === before.session;
    if (group && isSame) group[1] += 1;
    else groups.push([position, 1]);
    before = row;
  });
  return groups;
}

function groupAt(groups: Group[], position: number): number {
  let low = 0;
  let high = groups.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (groups[middle]![0] <= position) low = middle;
    else high = middle - 1;
  }
  return low;
}

export function Sequence({ rows, indices, selected, isFollowing, onSelect }: ListProps) {
  const groups = useMemo(() => groupsOf(rows, indices), [rows, indices]);
  const first = (group: number) => rows[indices[groups[group]![0]]!]!;
  return (
    <>
      <div class="lanes" aria-hidden="true">
        <span />
        <span class="lane-names">
          <span>client</span>
          <span>agent</span>
        </span>
      </div>
      <VirtualList
        class="sequence"
        count={groups.length}
        rowHeight={44}
        selected={selected < 0 ? -1 : groupAt(groups, selected)}
        label="Sequence of frames"
        isFollowing={isFollowing}
        onSelect={(group) => onSelect(first(group).number)}
        rowClass={(group) => classOf(first(group))}
        render={(group) => {
          const row = first(group);
          const [position, count] = groups[group]!;
          const last = rows[indices[position + count - 1]!]!;
          return (
            <>
              <span class="time">{seconds(row.t)}</span>
              <span class="lane">
                <span class="label">
                  <bdi class="name">{plain(nameOf(row))}</bdi>
                  {count > 1 && <span class="count">× {number(count)}</span>}
                  {count > 1 && <span class="latency">{duration(last.t - row.t)}</span>}
                  {row.latency !== null && <span class="latency">{duration(row.latency)}</span>}
                  <bdi class="preview">{plain(row.preview)}</bdi>
                </span>
                <span class="line" />
              </span>
            </>
          );
        }}
      />
    </>
  );
}
