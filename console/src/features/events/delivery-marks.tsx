import { type State, StateMark } from '../../ui/state-mark.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import './delivery-marks.css';

/** The state of an event at one destination. */
interface DeliveryMark {
  readonly destination: string;
  readonly state: State;
  readonly reason?: string | undefined;
}

interface DeliveriesProps {
  readonly deliveries: readonly DeliveryMark[];
}

/** Most marks of success in a row; more are shown as a number. */
const MOST_MARKS = 4;

/** Most names in a row; the others are counted. */
const MOST_NAMES = 2;

/**
 * Deliveries of an event in a row of a list: first a bare mark for each success, then the others with names.
 */
export function DeliveryMarks({ deliveries }: DeliveriesProps) {
  const good = deliveries.filter(({ state }) => state === 'delivered');
  const others = deliveries.filter(({ state }) => state !== 'delivered');
  const named = others.length <= MOST_NAMES + 1 ? others : others.slice(0, MOST_NAMES);
  const rest = others.slice(named.length);
  return (
    <span className="dls">
      <span className="oks">
        {good.length > MOST_MARKS ? (
          <span title={`delivered to ${good.length}`}>
            <StateMark state="delivered" label={String(good.length)} />
          </span>
        ) : (
          good.map(({ destination }, nth) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: with `success: each` a destination has several, which are alike.
            <span key={nth} title={`${destination}: delivered`}>
              <StateMark state="delivered" label={null} />
            </span>
          ))
        )}
      </span>
      {named.map((one, nth) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: as above.
        <span key={nth} title={wholeOf(one)}>
          <StateMark state={one.state} label={visibleLine(one.destination, 24)} />
        </span>
      ))}
      {rest.length > 0 && <span title={rest.map(wholeOf).join('\n')}>and {rest.length} more</span>}
    </span>
  );
}

function wholeOf({ destination, state, reason }: DeliveryMark): string {
  return `${destination}: ${state}${reason === undefined ? '' : `, ${reason}`}`;
}

/** The same in a few letters: the most urgent state, and how many deliveries are done. */
export function DeliverySum({ deliveries }: DeliveriesProps) {
  if (deliveries.length === 0) return null;
  const done = deliveries.filter(({ state }) => state === 'delivered').length;
  const worst = (['dead', 'retrying', 'pending', 'dropped'] as const).find((one) =>
    deliveries.some(({ state }) => state === one),
  );
  return <StateMark state={worst ?? 'delivered'} label={`${done} of ${deliveries.length}`} />;
}
