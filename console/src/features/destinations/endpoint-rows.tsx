import { useQuery } from '@tanstack/react-query';
import { clock } from '../../ui/format.ts';
import { Section } from '../../ui/page.tsx';
import { usePreferences } from '../../ui/preferences.ts';
import { StateMark } from '../../ui/state-mark.tsx';
import { Num, RelativeTime } from '../../ui/time.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import { adviceFor } from '../events/reasons.ts';
import { endpointStateOf } from './destination-state.tsx';
import type { Destination } from './form.ts';
import { type Bar, barsText, type EndpointBars, endpointBarsQuery } from './history.ts';
import type { DestinationStatus } from './queries.ts';
import { sum } from './rows.ts';
import './endpoint-rows.css';
import '../../ui/table.css';

export interface HealthProps {
  readonly destination: Destination;
  readonly status: DestinationStatus;
}

export function Endpoints({ destination, status }: HealthProps) {
  const { success } = destination.settings;
  const { data: bars } = useQuery(endpointBarsQuery(destination.name));
  return (
    <Section
      title="Endpoints"
      about={
        status.endpoints.length > 1 &&
        (success === 'any' ? 'one accepted request delivers' : 'each is a delivery of its own')
      }
    >
      <div className="box bleed">
        <table className="tbl">
          <tbody>
            {status.endpoints.map((endpoint) => (
              <EndpointRow key={endpoint.endpoint} endpoint={endpoint} day={bars?.get(endpoint.endpoint)} />
            ))}
          </tbody>
        </table>
      </div>
    </Section>
  );
}

type Endpoint = DestinationStatus['endpoints'][number];

interface EndpointRowProps {
  readonly endpoint: Endpoint;
  readonly day: EndpointBars | undefined;
}

function EndpointRow({ endpoint: given, day }: EndpointRowProps) {
  const { endpoint, state, since, lastError, lastAcceptedAt, attempts } = given;
  return (
    <tr className="tall">
      <td className="w">
        <span className="mono med">{visibleLine(endpoint)}</span>
        <span className="soft below">
          {state === 'failing' && lastError !== undefined ? (
            <>
              {adviceFor(lastError.reason).cause}
              {lastError.answer !== undefined && ` It says “${visibleLine(lastError.answer, 120)}”.`}
            </>
          ) : lastAcceptedAt === undefined ? (
            'No request was accepted yet.'
          ) : (
            <>
              Accepted the last one <RelativeTime at={lastAcceptedAt} />.
            </>
          )}
        </span>
      </td>
      <td>
        <StateMark state={endpointStateOf(given)} />
        {since !== undefined && (
          <span className="dim below">
            <RelativeTime at={since} />
          </span>
        )}
      </td>
      <td className="c-md day-cell">{day !== undefined && <Ticks day={day} />}</td>
      <td className="r c-lo">
        <Num value={sum(attempts)} /> <span className="dim">requests</span>
        {state === 'failing' && lastError !== undefined && (
          <span className="mono below">{lastError.reason}</span>
        )}
      </td>
    </tr>
  );
}

const TICKS: Readonly<Record<Bar, string>> = { none: 'none', fine: '', some: 'some', all: 'all' };

/** 24 hours in bars of 20 minutes: higher and redder where requests failed, which the text says too. */
function Ticks({ day }: { readonly day: EndpointBars }) {
  const { zone } = usePreferences();
  const words = barsText(day, (time) => clock(time, zone, { isShort: true }));
  return (
    <div className="ticks" role="img" aria-label={words} title={words}>
      {day.bars.map((bar, nth) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a bar has no identity but its place.
        <i key={nth} className={TICKS[bar]} />
      ))}
    </div>
  );
}
