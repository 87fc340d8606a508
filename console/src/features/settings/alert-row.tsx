import { MoreHorizontal } from 'lucide-react';
import { Button } from '../../ui/controls.tsx';
import { duration } from '../../ui/format.ts';
import { Menu, MenuItem } from '../../ui/menu.tsx';
import { type State, StateMark } from '../../ui/state-mark.tsx';
import { RelativeTime, useNow } from '../../ui/time.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import { CONDITIONS } from './alert-form.ts';
import type { Alert } from './queries.ts';
import '../../ui/need.css';

/** A dialog about one alert. */
export type AlertAction = 'edit' | 'test' | 'remove';

interface AlertRowProps {
  readonly alert: Alert;
  /** Absent for those who may not change alerts. */
  readonly onAct: ((action: AlertAction) => void) | undefined;
}

/** A row of an alert: its receivers, its conditions, open problems, and the result of the last message. */
export function AlertRow({ alert, onAct }: AlertRowProps) {
  const { name, type, enabled, open } = alert;
  return (
    <article className="need">
      <StateMark state={stateOf(alert)} label={null} />
      <h3>
        {visibleLine(name, 60)} <span className="mono soft">{visibleLine(receiverOf(alert), 120)}</span>
      </h3>
      <div className="facts">
        <span>{type === 'email' ? 'e-mail' : 'webhook'}</span>
        {!enabled && <span>disabled: tells nothing</span>}
        {open.map((one) => (
          <OpenTrouble key={`${one.condition} ${one.destination}`} trouble={one} />
        ))}
        {enabled && open.length === 0 && <span>nothing open</span>}
        <LastMessage alert={alert} />
      </div>
      <p>{conditionsText(alert)}</p>
      {onAct !== undefined && (
        <div className="acts">
          <Button aria-label={`Send test to ${name}`} onClick={() => onAct('test')}>
            Send test
          </Button>
          <Menu
            trigger={
              <Button isIcon aria-label={`More about ${name}`}>
                <MoreHorizontal className="i" aria-hidden />
              </Button>
            }
          >
            <MenuItem onSelect={() => onAct('edit')}>Edit…</MenuItem>
            <MenuItem isDangerous onSelect={() => onAct('remove')}>
              Remove…
            </MenuItem>
          </Menu>
        </div>
      )}
    </article>
  );
}

/** The state of the alert itself: problems that it reports are not its own. */
function stateOf({ enabled, isWaiting, last, open }: Alert): State {
  if (!enabled) return 'disabled';
  if (isWaiting || last?.outcome === 'failed') return 'failed';
  return open.length > 0 ? 'failing' : 'healthy';
}

function receiverOf({ settings }: Alert): string {
  return 'url' in settings ? settings.url : settings.to.join(', ');
}

/** The conditions in a sentence. */
function conditionsText({ on, after, remindEvery, destinations }: Alert): string {
  const all = Object.keys(CONDITIONS).length;
  const what =
    on.length === all
      ? 'Tells of everything'
      : `Tells when ${on.map((one) => CONDITIONS[one].replace(/^./, (letter) => letter.toLowerCase())).join('; ')}`;
  const where = destinations === undefined ? '' : `, for ${destinations.join(', ')}`;
  return `${what}${where}. A change is told after ${after}, and again every ${remindEvery} while it goes on.`;
}

function OpenTrouble({ trouble }: { readonly trouble: Alert['open'][number] }) {
  const { condition, destination, since } = trouble;
  const now = useNow();
  return (
    <span className="bad">
      {visibleLine(destination ?? condition.replaceAll('_', ' '), 60)} for{' '}
      <b>{duration(Math.max(1000, Math.round((now - Date.parse(since)) / 1000) * 1000))}</b>
    </span>
  );
}

function LastMessage({ alert: { last, isWaiting } }: Pick<AlertRowProps, 'alert'>) {
  if (last === undefined) return <span>{isWaiting ? 'a message waits' : 'no message since the start'}</span>;
  if (last.outcome === 'taken') {
    return (
      <span>
        last message taken <RelativeTime at={last.at} />
      </span>
    );
  }
  const said = [last.status, last.answer === '' ? undefined : `“${visibleLine(last.answer, 60)}”`];
  return (
    <span className="bad">
      last message not taken, {said.filter((part) => part !== undefined).join(' ')}{' '}
      <RelativeTime at={last.at} />
      {isWaiting && '; sent again by itself'}
    </span>
  );
}
