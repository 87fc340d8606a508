import { X } from 'lucide-react';
import { type KeyboardEvent, type PointerEvent, type ReactNode, useEffect, useState } from 'react';
import { Button } from './controls.tsx';
import { setPreferences, usePreferences } from './preferences.ts';
import { useShortcut } from './shortcuts.ts';
import './inspector.css';

interface InspectorProps {
  readonly title: ReactNode;
  /** Content below the title: ids, links. */
  readonly about?: ReactNode;
  readonly actions?: ReactNode;
  readonly onClose: () => void;
  readonly children: ReactNode;
}

/** A panel beside a list. The URL says which entry is open; the panel only shows it. */
export function Inspector({ title, about, actions, onClose, children }: InspectorProps) {
  useShortcut('Escape', 'Close what is open', onClose);
  useFocusBack();
  return (
    <>
      <div className="insp-h">
        <div className="rowx insp-title">
          <h2 className="clip">{title}</h2>
          <span className="insp-acts">
            {actions}
            <Button kind="quiet" isIcon aria-label="Close" onClick={onClose}>
              <X className="i" aria-hidden />
            </Button>
          </span>
        </div>
        {about}
      </div>
      <div className="insp-b">{children}</div>
    </>
  );
}

/**
 * Returns the focus when the panel closes: to the row that was opened, or to the list if that row is gone.
 */
function useFocusBack(): void {
  useEffect(() => {
    const before = document.activeElement;
    return () => {
      if (document.activeElement !== document.body) return;
      const row = document.querySelector<HTMLElement>('main [role="grid"] tr[tabindex="0"]');
      (before instanceof HTMLElement && before.isConnected && before !== document.body
        ? before
        : row
      )?.focus();
    };
  }, []);
}

const NARROWEST = 320;
const WIDEST = 900;
const STEP = 24;

interface SplitProps {
  readonly children: ReactNode;
  /** An `Inspector`, or nothing. */
  readonly beside: ReactNode | undefined;
  /** Names the part beside the list for screen readers. */
  readonly label: string;
}

/** A list with its inspector, whose width is dragged, or moved with the arrow keys. */
export function Split({ children, beside, label }: SplitProps) {
  const { inspector } = usePreferences();
  const [dragged, setDragged] = useState<number>();
  if (beside === undefined) return children;
  const width = dragged ?? inspector;
  const widthAt = (event: PointerEvent): number => clamp(window.innerWidth - event.clientX);
  const onKeyDown = (event: KeyboardEvent): void => {
    const by = { ArrowLeft: STEP, ArrowRight: -STEP }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    setPreferences({ inspector: clamp(width + by) });
  };
  return (
    <div className="split" style={{ '--inspector': `${width}px` } as React.CSSProperties}>
      {children}
      <aside className="insp" aria-label={label}>
        {/* biome-ignore lint/a11y/useSemanticElements: an hr cannot be dragged or focused. */}
        <div
          className="insp-edge"
          role="separator"
          aria-orientation="vertical"
          aria-label="Width of the inspector"
          aria-valuenow={width}
          aria-valuemin={NARROWEST}
          aria-valuemax={WIDEST}
          tabIndex={0}
          onKeyDown={onKeyDown}
          onPointerDown={(event) => event.currentTarget.setPointerCapture(event.pointerId)}
          onPointerMove={(event) => event.buttons === 1 && setDragged(widthAt(event))}
          onPointerUp={(event) => {
            setDragged(undefined);
            setPreferences({ inspector: widthAt(event) });
          }}
        />
        {beside}
      </aside>
    </div>
  );
}

function clamp(width: number): number {
  return Math.round(Math.max(NARROWEST, Math.min(width, WIDEST, window.innerWidth * 0.6)));
}
