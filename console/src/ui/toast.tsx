import { useSyncExternalStore } from 'react';
import './toast.css';

interface Message {
  readonly text: string;
  /** Undoes the action, if that is possible. */
  readonly undo?: () => void;
}

/** Milliseconds for which a message is shown: enough to read it and press Undo. */
const SHOWN = 8_000;

let message: Message | undefined;
let timer: ReturnType<typeof setTimeout> | undefined;
const listeners = new Set<() => void>();

/** Shows a message at the bottom of the screen. A newer message replaces it. */
export function toast(text: string, undo?: () => void): void {
  show(undo === undefined ? { text } : { text, undo });
}

function show(next: Message | undefined): void {
  clearTimeout(timer);
  message = next;
  if (next !== undefined) timer = setTimeout(() => show(undefined), SHOWN);
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Mounted once, by the shell. */
export function Toaster() {
  const shown = useSyncExternalStore(subscribe, () => message);
  const undo = shown?.undo;
  return (
    <output aria-live="polite">
      {shown !== undefined && (
        <span className="toast">
          <span>{shown.text}</span>
          {undo !== undefined && (
            <button
              type="button"
              onClick={() => {
                undo();
                show(undefined);
              }}
            >
              Undo
            </button>
          )}
        </span>
      )}
    </output>
  );
}
