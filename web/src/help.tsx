import { useEffect, useRef } from "preact/hooks";

const KEYS: [string[], string][] = [
  [["j", "↓"], "next frame"],
  [["k", "↑"], "previous frame"],
  [["PgDn", "PgUp"], "20 frames on or back"],
  [["g", "G"], "first, last frame"],
  [["Enter"], "open the details"],
  [["p"], "from a request to its response, and back"],
  [["e"], "next frame with a finding"],
  [["/"], "search"],
  [["f"], "follow a recording that grows"],
  [["1", "–", "7"], "views"],
  [["Esc"], "close, or clear the search and the filters"],
  [["?"], "this list"],
];

export function Help({ onClose }: { onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current!.showModal(), []);
  return (
    <dialog ref={dialog} aria-labelledby="help-title" onClose={onClose}>
      <h2 id="help-title">Keys</h2>
      <dl class="help">
        {KEYS.map(([keys, about]) => (
          <div>
            <dt>
              {keys.map((key) => (
                <kbd>{key}</kbd>
              ))}
            </dt>
            <dd>{about}</dd>
          </div>
        ))}
      </dl>
      <button type="button" onClick={() => dialog.current!.close()}>
        Close
      </button>
    </dialog>
  );
}
