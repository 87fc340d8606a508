import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { Search } from 'lucide-react';
import { useEffect, useRef, useState } from 'react';
import { destinationsQuery } from '../../api/queries.ts';
import { Button, TextInput } from '../../ui/controls.tsx';
import { EmptyState, Notice } from '../../ui/empty-state.tsx';
import { exactNumber } from '../../ui/format.ts';
import { Icon } from '../../ui/icons.tsx';
import { Split } from '../../ui/inspector.tsx';
import { Page } from '../../ui/page.tsx';
import { useShortcut } from '../../ui/shortcuts.ts';
import { Table } from '../../ui/table.tsx';
import { CallFilters, NameSelect, SendExample } from '../events/call-filters.tsx';
import { EventInspector } from '../events/event-inspector.tsx';
import { LIVE_COLUMNS, matches } from './columns.tsx';
import type { LiveRow } from './live-ring.ts';
import { type TailFilter, useTail } from './use-tail.ts';
import './live-page.css';

const route = getRouteApi('/shell/live');

/** Page of the live tail: calls as they are accepted, and their deliveries as they settle. */
export function LivePage() {
  const { q = '', open, from, ...filter } = route.useSearch();
  const navigate = route.useNavigate();
  const [isPaused, setIsPaused] = useState(false);
  const tail = useTail(filter, isPaused);
  useShortcut('p', 'Pause, or follow again', () => setIsPaused((before) => !before));
  const rows = q === '' ? tail.rows : tail.rows.filter((row) => matches(row, q.toLowerCase()));
  const show = (row: LiveRow): void => {
    if (row.event === undefined) return;
    const { messageId } = row.event;
    void navigate({
      search: (before) => ({ ...before, open: messageId, ...(row.source ? { from: row.source } : {}) }),
    });
  };
  const close = (): void => void navigate({ search: ({ open: _, from: __, ...rest }) => rest });

  return (
    <Split
      label="The event that is open"
      beside={
        open === undefined ? undefined : <EventInspector messageId={open} source={from} onClose={close} />
      }
    >
      <Page
        title="Live"
        about={
          <span className={`st pill ${isPaused || !tail.isOpen ? 'mute' : 'water'}`}>
            <Icon name={isPaused ? 'pause' : 'live'} />
            {isPaused ? 'paused' : tail.isOpen ? 'following' : 'connecting'}
          </span>
        }
        actions={
          <Button onClick={() => setIsPaused(!isPaused)}>
            <Icon name={isPaused ? 'play' : 'pause'} />
            {isPaused ? 'Follow' : 'Pause'}
            <kbd>p</kbd>
          </Button>
        }
      >
        <Filters filter={filter} q={q} />
        {tail.waiting !== undefined && <Notice tone="warn">{tail.waiting}</Notice>}
        <Shown flow={tail.flow} missed={tail.missed} isPaused={isPaused} />
        {rows.length === 0 ? (
          <Quiet isFiltered={q !== '' || Object.keys(filter).length > 0} />
        ) : (
          <Table
            label="Events as they arrive"
            columns={LIVE_COLUMNS}
            rows={rows}
            rowId={({ id }) => id}
            isFixed
            selected={rows.find(({ event }) => event !== undefined && event.messageId === open)?.id}
            onOpen={show}
          />
        )}
        <Announcer count={tail.rows.length} newest={tail.rows[0]} />
      </Page>
    </Split>
  );
}

function Filters({ filter, q }: { readonly filter: TailFilter; readonly q: string }) {
  const { data: destinations = [] } = useQuery(destinationsQuery);
  const navigate = route.useNavigate();
  const field = useRef<HTMLInputElement>(null);
  useShortcut('/', 'Search', () => field.current?.focus());
  const set = (change: Readonly<Record<string, string>>): void =>
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true });
  return (
    <search className="rowx" aria-label="Filters">
      <TextInput
        ref={field}
        isSmall
        className="filter-field"
        before={<Search className="i" aria-hidden />}
        after={<kbd>/</kbd>}
        aria-label="Filter what is shown by id, user or event"
        placeholder="Id, user or event"
        value={q}
        onChange={(event) => set({ q: event.target.value })}
      />
      <CallFilters filter={filter} set={set} />
      <NameSelect
        label="Destination"
        any="Any destination"
        value={filter.destination}
        names={destinations.map(({ name }) => name)}
        onChange={(destination) => set({ destination })}
      />
      <Button
        aria-pressed={filter.failed === 'true'}
        className="toggle"
        onClick={() => set({ failed: filter.failed === 'true' ? '' : 'true' })}
      >
        Only failures
      </Button>
    </search>
  );
}

interface ShownProps {
  readonly flow: { readonly shown: number; readonly passed: number };
  readonly missed: number;
  readonly isPaused: boolean;
}

/** Says which share of the arriving events is shown. */
function Shown({ flow: { shown, passed }, missed, isPaused }: ShownProps) {
  if (isPaused) {
    return (
      <p className="dim num live-flow">
        Paused; <b>{exactNumber(missed)}</b> more have come since.
      </p>
    );
  }
  return (
    <p className="dim num live-flow">
      {passed > 0 ? (
        <>
          Shows <b>{`${exactNumber(shown)} of ${exactNumber(shown + passed)}/s`}</b>; the rest was left out
          here and is stored all the same.
        </>
      ) : (
        <>
          Shows all of <b>{exactNumber(shown)}/s</b>, the last 500 of them.
        </>
      )}
    </p>
  );
}

/** Shown while nothing has come yet. The page updates automatically. */
function Quiet({ isFiltered }: { readonly isFiltered: boolean }) {
  return (
    <div className="box bleed">
      <EmptyState
        isWaiting
        title={isFiltered ? 'Waiting for something that matches' : 'Waiting for the next event'}
        action={!isFiltered && <SendExample />}
      >
        {isFiltered
          ? 'The filter is applied by the server to what happens from now on. Events of the past are found under Events.'
          : 'What arrives from now on appears here at once, and its deliveries settle in place. Send one:'}
      </EmptyState>
    </div>
  );
}

/** Milliseconds between two announcements to a screen reader. */
const SPOKEN = 5_000;

/** Announces the newest event to screen readers, with pauses, so that an announcement is heard to its end. */
function Announcer({ count, newest }: { readonly count: number; readonly newest: LiveRow | undefined }) {
  const [text, setText] = useState('');
  const latest = useRef({ count, newest });
  latest.current = { count, newest };
  useEffect(() => {
    let before: LiveRow | undefined;
    const timer = setInterval(() => {
      const { newest: row } = latest.current;
      if (row === before || row === undefined) return;
      before = row;
      setText(
        `New: ${row.event?.event ?? row.event?.type ?? 'discarded call'} from ${row.source ?? 'no source'}`,
      );
    }, SPOKEN);
    return () => clearInterval(timer);
  }, []);
  return (
    <span className="sr" aria-live="polite">
      {text}
    </span>
  );
}
