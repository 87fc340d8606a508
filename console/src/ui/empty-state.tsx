import type { ReactNode } from 'react';
import { sentence } from '../api/client.ts';
import { Button } from './controls.tsx';
import { Icon } from './icons.tsx';
import './empty-state.css';

interface EmptyStateProps {
  readonly title: string;
  /** Text that says what will stand here. */
  readonly children: ReactNode;
  /** True when the page updates automatically. */
  readonly isWaiting?: boolean;
  /** A command to copy, or a button. */
  readonly action?: ReactNode;
}

export function EmptyState({ title, children, isWaiting = false, action }: EmptyStateProps) {
  return (
    <div className="empty">
      <p className={isWaiting ? 'wait' : 'med'}>{title}</p>
      <p className="soft empty-text">{children}</p>
      {action}
    </div>
  );
}

interface NoticeProps {
  readonly tone?: 'water' | 'warn' | 'bad';
  readonly children: ReactNode;
}

const NOTICE_ICONS = { water: 'info', warn: 'look', bad: 'bad' } as const;

export function Notice({ tone = 'water', children }: NoticeProps) {
  return (
    <div className={`notice ${tone}`}>
      <Icon name={NOTICE_ICONS[tone]} />
      <div>{children}</div>
    </div>
  );
}

/** A query that failed, with what to do. */
export function Failure({ error, onRetry }: { readonly error: unknown; readonly onRetry?: () => void }) {
  return (
    <div className="notice bad" role="alert">
      <Icon name="bad" />
      <div className="notice-text">{sentence(error)}</div>
      {onRetry !== undefined && (
        <Button isSmall onClick={onRetry}>
          Try again
        </Button>
      )}
    </div>
  );
}

/** Placeholder of rows that are loading, without a shimmer. */
export function SkeletonRows({ rows = 6 }: { readonly rows?: number }) {
  return (
    <div className="skel-rows" aria-busy="true">
      <span className="sr">Loading</span>
      {Array.from({ length: rows }, (_, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: rows without identity.
        <span key={index} className={`skel skel-${index % 4}`} />
      ))}
    </div>
  );
}
