import { bytes, duration } from '../../ui/format.ts';
import { StateMark, toneOf } from '../../ui/state-mark.tsx';
import { Clock } from '../../ui/time.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import { WayStep } from '../../ui/way.tsx';
import { NextTry } from './next-try.tsx';
import type { AcceptedEvent, DeliveryTrace } from './queries.ts';
import { reasonSentence, resultWord } from './reasons.ts';
import { storedSize } from './received.ts';
import { type WayBar, wayOf } from './way.ts';
import './event-way.css';

/** What became of an event, from its arrival on, with every attempt drawn to scale. */
export function EventWay({ entry }: { readonly entry: AcceptedEvent }) {
  const { lanes, span, ticks } = wayOf(entry);
  const dated = (entry.event as { timestamp?: string }).timestamp;
  return (
    <section className="box bleed" aria-label="What became of it">
      <ol className="way">
        <WayStep time={<Clock at={entry.receivedAt} />} state="accepted" what="received">
          <span className="soft">
            from {visibleLine(entry.source)} · {bytes(storedSize(entry.event))}
            {dated !== undefined && (
              <>
                {' · dated '}
                <Clock at={dated} />
              </>
            )}
          </span>
        </WayStep>
        {entry.skipped.map(({ destination, reason }) => (
          <WayStep key={destination} state="skipped" what="skipped">
            <span className="soft">
              {visibleLine(destination, 60)}: {reasonSentence(reason)}
            </span>
          </WayStep>
        ))}
        {lanes.map(({ delivery, bars }) => (
          <DeliverySteps key={delivery.id} delivery={delivery} bars={bars} />
        ))}
        <li className="axis" aria-hidden="true">
          <span className="t" />
          <span />
          <span />
          <span className="lane">
            {ticks.map((tick) => (
              <span key={tick} className="ax" style={{ left: percent(tick / span) }}>
                {duration(tick)}
              </span>
            ))}
          </span>
        </li>
      </ol>
    </section>
  );
}

function DeliverySteps({
  delivery,
  bars,
}: {
  readonly delivery: DeliveryTrace;
  readonly bars: readonly WayBar[];
}) {
  const name = visibleLine(delivery.destination, 40);
  return (
    <>
      {bars.map((bar, index) => (
        <BarStep
          key={`${bar.attempt.startedAt} ${bar.attempt.endpoint}`}
          bar={bar}
          name={index === 0 ? name : ''}
        />
      ))}
      {delivery.state !== 'delivered' && (
        <NextStep delivery={delivery} name={bars.length === 0 ? name : ''} />
      )}
    </>
  );
}

function BarStep({ bar, name }: { readonly bar: WayBar; readonly name: string }) {
  const { attempt, after, start, length, waitedFrom } = bar;
  const tone = toneOf(attempt.outcome, 1);
  const result = resultWord(attempt.reason, attempt.status);
  // Words stand behind the bar, and before its end where the bar is long.
  const words = start + length > 0.8 ? { right: percent(1 - start) } : { left: percent(start + length) };
  return (
    <li>
      <span className="t">+{duration(after)}</span>
      <span className="d">
        <StateMark state={attempt.outcome} label={null} />
      </span>
      <span className="what med clip" title={name}>
        {name}
      </span>
      <span className="lane">
        {waitedFrom !== undefined && (
          <span
            className="bar gap"
            style={{ left: percent(waitedFrom), width: percent(start - waitedFrom) }}
          />
        )}
        <span className={`bar ${tone}`} style={{ left: percent(start), width: percent(length) }} />
        <span className="lt num soft" style={words} title={visibleLine(attempt.endpoint)}>
          <b className={tone}>{result}</b> in {duration(attempt.latencyMs)}
        </span>
      </span>
    </li>
  );
}

/** What happens next, or why nothing does. */
function NextStep({ delivery, name }: { readonly delivery: DeliveryTrace; readonly name: string }) {
  const { destination, state, reason, nextAttemptAt } = delivery;
  if (state === 'dead') {
    return (
      <WayStep state="dead" what={name}>
        dead letter: {reasonSentence(reason ?? 'unknown')}
      </WayStep>
    );
  }
  return (
    <WayStep time="now" state={state} what={name}>
      <NextTry destination={destination} at={nextAttemptAt} />
    </WayStep>
  );
}

function percent(part: number): string {
  return `${(part * 100).toFixed(2)}%`;
}
