import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Moon, Search, Sun, SunMoon } from 'lucide-react';
import { lazy, Suspense, useEffect, useState } from 'react';
import { REFRESH, statusQuery } from '../api/queries.ts';
import { sessionQuery } from '../api/session.ts';
import { Button } from '../ui/controls.tsx';
import { exactNumber, rate } from '../ui/format.ts';
import { Icon } from '../ui/icons.tsx';
import { setPreferences, usePreferences } from '../ui/preferences.ts';
import { StateMark } from '../ui/state-mark.tsx';
import { ledgerVerdict, type Reading, receivedRate } from './vital-signs.ts';

export function TopBar({ onSearch }: { readonly onSearch: () => void }) {
  return (
    <header className="top">
      <div className="where">
        <Link to="/" className="brand" aria-label="Overview">
          <Icon name="logo" />
        </Link>
        <span className="c-lo">{location.hostname}</span>
      </div>
      <button type="button" className="jump" onClick={onSearch}>
        <Search className="i" aria-hidden />
        <span>Search or jump…</span>
        <kbd>{navigator.platform.startsWith('Mac') ? '⌘K' : 'Ctrl K'}</kbd>
      </button>
      <span className="grow" />
      <VitalSigns />
      <ThemeButton />
      <SessionButton />
    </header>
  );
}

/** Shows the rate of calls, and whether the ledger balances. */
function VitalSigns() {
  const { data: status, isError } = useQuery({ ...statusQuery, refetchInterval: REFRESH });
  const [readings, setReadings] = useState<readonly Reading[]>([]);
  useEffect(() => {
    if (status !== undefined) setReadings((before) => [...before.slice(-4), status]);
  }, [status]);
  if (isError) return <StateMark state="failing" label="no answer from the server" />;
  if (status === undefined) return null;
  const perSecond = receivedRate(readings);
  const { isGood, label, title } = ledgerVerdict(status);
  return (
    <>
      <Link
        to="/live"
        className="pulse num top-live"
        title={perSecond === undefined ? undefined : `${exactNumber(perSecond)} calls a second received`}
      >
        live {perSecond === undefined ? '' : rate(perSecond)}
      </Link>
      <Link to="/" hash="ledger" className={`ledger ${isGood ? '' : 'is-bad'}`} title={title}>
        <Icon name={isGood ? 'ok' : 'bad'} className="i-s" />
        {label}
      </Link>
    </>
  );
}

const THEMES = { system: SunMoon, light: Sun, dark: Moon };

const NEXT_THEME = { system: 'light', light: 'dark', dark: 'system' } as const;

function ThemeButton() {
  const { theme } = usePreferences();
  const Mark = THEMES[theme];
  const label = `Theme: ${theme}. Switch to ${NEXT_THEME[theme]}`;
  return (
    <Button
      kind="quiet"
      isIcon
      aria-label={label}
      title={label}
      onClick={() => setPreferences({ theme: NEXT_THEME[theme] })}
    >
      <Mark className="i" aria-hidden />
    </Button>
  );
}

/**
 * The menu is loaded when it is first opened: the library that places it would be a seventh of the first
 * load.
 */
const SessionMenu = lazy(async () => ({ default: (await import('./session-menu.tsx')).SessionMenu }));

function SessionButton() {
  const { data: session } = useQuery(sessionQuery);
  const [isOpened, setIsOpened] = useState(false);
  if (!session) return null;
  const button = (
    <button type="button" className="me" aria-haspopup="menu" onClick={() => setIsOpened(true)}>
      <span aria-hidden="true">{session.name.slice(0, 2).toUpperCase()}</span>
      <span className="sr">
        {session.name}, {session.role}
      </span>
    </button>
  );
  if (!isOpened) return button;
  return (
    <Suspense fallback={button}>
      <SessionMenu session={session} trigger={button} />
    </Suspense>
  );
}
