import { useSyncExternalStore } from 'react';
import './toast.css';

interface Message {
  readonly text: string;
  /** Where what happened can be taken back. */
  readonly undo?: () => void;
}

/** Long enough to read a sentence and to press Undo, in milliseconds. */
const SHOWN = 8_000;

let message: Message | undefined;
let timer: ReturnType<typeof setTimeout> | undefined;
const listeners = new Set<() => void>();

/** Says at the bottom of the screen what has happened. A newer message takes its place. */
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
