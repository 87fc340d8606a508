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

/** Deliveries of an event in a row of a list: success is a bare mark and stands first, what is not a success is named. */
export function DeliveryMarks({ deliveries }: DeliveriesProps) {
  const good = deliveries.filter(({ state }) => state === 'delivered');
  const others = deliveries.filter(({ state }) => state !== 'delivered');
  return (
    <span className="dls">
      <span className="oks">
        {good.map(({ destination }, nth) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: with `success: each` a destination has several, which are alike.
          <span key={nth} title={`${destination}: delivered`}>
            <StateMark state="delivered" label={null} />
          </span>
        ))}
      </span>
      {others.map(({ destination, state, reason }, nth) => (
        <span
          // biome-ignore lint/suspicious/noArrayIndexKey: as above.
          key={nth}
          title={`${destination}: ${state}${reason === undefined ? '' : `, ${reason}`}`}
        >
          <StateMark state={state} label={visibleLine(destination, 24)} />
        </span>
      ))}
    </span>
  );
}

/** The same in a few letters: the state that wants the most attention, and how many are done. */
export function DeliverySum({ deliveries }: DeliveriesProps) {
  if (deliveries.length === 0) return null;
  const done = deliveries.filter(({ state }) => state === 'delivered').length;
  const worst = (['dead', 'retrying', 'pending'] as const).find((one) =>
    deliveries.some(({ state }) => state === one),
  );
  return <StateMark state={worst ?? 'delivered'} label={`${done} of ${deliveries.length}`} />;
}
