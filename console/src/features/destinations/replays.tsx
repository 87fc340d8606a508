import { useQuery } from '@tanstack/react-query';
import { sentence } from '../../api/client.ts';
import { useMay } from '../../api/roles.ts';
import { Button } from '../../ui/controls.tsx';
import { EmptyState, Failure, SkeletonRows } from '../../ui/empty-state.tsx';
import { exactNumber, plural } from '../../ui/format.ts';
import { Section } from '../../ui/page.tsx';
import { StateMark } from '../../ui/state-mark.tsx';
import { Clock, RelativeTime } from '../../ui/time.tsx';
import { toast } from '../../ui/toast.tsx';
import { type Replay, replaysQuery, useCancelReplay } from './queries.ts';
import '../../ui/need.css';
import '../../ui/progress.css';

const WAITING: Readonly<Record<NonNullable<Replay['waiting']>, string>> = {
  destination_paused: 'waits until the destination is resumed',
  destination_disabled: 'waits until the destination is enabled',
  destination_behind: 'waits for the destination to catch up',
  storage_unavailable: 'waits until the store can be written again',
};

/** Replays and redeliveries of a destination, those under way with their progress. */
export function Replays({ name }: { readonly name: string }) {
  const replays = useQuery(replaysQuery);
  if (replays.isPending) return <SkeletonRows rows={3} />;
  if (replays.error !== null) return <Failure error={replays.error} />;
  const own = replays.data.filter(({ destination }) => destination === name);
  if (own.length === 0) {
    return (
      <div className="box">
        <EmptyState title="No replays">
          A replay sends the stored events of a range of time once more, as new deliveries. Press Replay…
          above to choose a range and count them first.
        </EmptyState>
      </div>
    );
  }
  return (
    <Section title="Replays" about="and redeliveries, the newest first">
      <div className="box bleed">
        {own.map((replay) => (
          <ReplayRow key={replay.id} replay={replay} />
        ))}
      </div>
    </Section>
  );
}

function ReplayRow({ replay }: { readonly replay: Replay }) {
  const { id, state, redelivers, count, replayed, pending, from, to, by, createdAt } = replay;
  const { reason, waiting, expectedEndAt } = replay;
  const cancel = useCancelReplay();
  const mayEdit = useMay('editor');
  return (
    <section
      className="need"
      aria-label={`${redelivers === undefined ? 'Replay' : 'Redelivery'} of ${exactNumber(count)} events`}
    >
      <StateMark state={state} label={null} />
      <h3>
        {redelivers === undefined ? 'Replay' : `Redelivery of ${redelivers.state} ones`}
        <span className="dim">{state}</span>
        {waiting !== undefined && <span className="warn">{WAITING[waiting]}</span>}
        {reason !== undefined && <span className="bad">{reason}</span>}
      </h3>
      <progress
        className="bar-progress"
        max={Math.max(count, 1)}
        value={state === 'done' ? Math.max(count, 1) : replayed}
      >
        {replayed} of {count}
      </progress>
      <p className="facts">
        <span>
          <b>{exactNumber(replayed)}</b> of {plural(count, 'event')}
        </span>
        {pending > 0 && <span>{exactNumber(pending)} still to be delivered</span>}
        <span>
          <Clock at={from} /> – <Clock at={to} />
        </span>
        <span>
          by {by}, <RelativeTime at={createdAt} />
        </span>
        {expectedEndAt !== undefined && (
          <span>
            ends <RelativeTime at={expectedEndAt} />
          </span>
        )}
      </p>
      {mayEdit && state === 'running' && (
        <div className="acts">
          <Button
            isSmall
            disabled={cancel.isPending}
            onClick={() =>
              cancel.mutate(id, {
                onSuccess: () => toast('Cancelled. What was owed for it already is still delivered.'),
                onError: (error) => toast(sentence(error)),
              })
            }
          >
            Cancel
          </Button>
        </div>
      )}
    </section>
  );
}
