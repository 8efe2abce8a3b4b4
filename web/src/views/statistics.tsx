import { useEffect, useState } from "preact/hooks";
import type { RecordingInfo, Statistics } from "../source";
import { bytes, duration, number, plain } from "../text";

interface Props {
  info: RecordingInfo;
  load: () => Promise<Statistics>;
  /** Changes when there are more frames. */
  frames: number;
  onMethod: (method: string) => void;
}

export function StatisticsView({ info, load, frames, onMethod }: Props) {
  const [figures, setFigures] = useState<Statistics | null>(null);
  useEffect(() => {
    let isCurrent = true;
    load().then(
      (found) => isCurrent && setFigures(found),
      () => undefined,
    );
    return () => {
      isCurrent = false;
    };
  }, [info.name, frames]);
  if (!figures) return <p class="note panel">Reading …</p>;
  const kinds = Object.entries(figures.frames);
  const cards: [string, string, string][] = [
    ["time", duration(figures.seconds), info.started ? `from ${plain(info.started).replace("T", " ").slice(0, 19)} UTC` : ""],
    ["frames", number(kinds.reduce((sum, [, each]) => sum + each, 0)), bytes(figures.bytes)],
    ["first update", figures.first_update === null ? "none" : duration(figures.first_update), "after the first prompt"],
    ["updates", number(figures.updates_per_second), "at most in a second"],
    ["longest silence", duration(figures.longest_silence), "during a prompt"],
    ["permission wait", duration(figures.permission_wait), "together"],
    ["unanswered", number(figures.unanswered), "requests"],
    ["schema findings", number(figures.problems), "frames"],
    ["missing", number(figures.missing), "frames that could not be recorded"],
  ];
  const slowest = Math.max(...figures.methods.map((each) => each.longest), 1e-9);
  return (
    <div class="panel statistics">
      <div class="cards">
        {cards.map(([name, value, about]) => (
          <div class="card">
            <div class="card-name">{name}</div>
            <div class="card-value">{value}</div>
            <div class="card-about">{about}</div>
          </div>
        ))}
      </div>
      <h2>Kinds</h2>
      <div class="kinds">
        {kinds.map(([kind, each]) => (
          <span>
            <span class={`kind ${kind}`}>{kind}</span> {number(each)}
          </span>
        ))}
      </div>
      <h2>Latency of each method</h2>
      {figures.methods.length === 0 && <p class="note">No request was answered.</p>}
      {figures.methods.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label="Latency of each method">
          <table>
            <thead>
              <tr>
                <th scope="col">method</th>
                <th scope="col">count</th>
                <th scope="col">errors</th>
                <th scope="col">p50</th>
                <th scope="col">p99</th>
                <th scope="col">longest</th>
                <th scope="col">
                  <span class="hidden">bar of the longest</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {figures.methods.map((each) => (
                <tr>
                  <th scope="row">
                    <button type="button" class="link" onClick={() => onMethod(each.method)}>
                      <bdi>{plain(each.method)}</bdi>
                    </button>
                  </th>
                  <td>{number(each.count)}</td>
                  <td class={each.errors ? "bad" : ""}>{number(each.errors)}</td>
                  <td>{duration(each.p50)}</td>
                  <td>{duration(each.p99)}</td>
                  <td>{duration(each.longest)}</td>
                  <td class="meter">
                    <span style={{ width: `${Math.max(1, (each.longest / slowest) * 100)}%` }} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </div>
  );
}
