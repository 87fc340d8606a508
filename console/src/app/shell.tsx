import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, Outlet, useNavigate, useRouter } from '@tanstack/react-router';
import { LogOut, Moon, Search, Sun, SunMoon } from 'lucide-react';
import { lazy, Suspense, useEffect, useState } from 'react';
import { REFRESH, statusQuery } from '../api/queries.ts';
import { sessionQuery, signOut } from '../api/session.ts';
import { Button } from '../ui/controls.tsx';
import { duration, exactNumber, rate } from '../ui/format.ts';
import { Icon, type IconName } from '../ui/icons.tsx';
import { Menu, MenuItem } from '../ui/menu.tsx';
import { setPreferences, usePreferences } from '../ui/preferences.ts';
import { useShortcut } from '../ui/shortcuts.ts';
import { useNow } from '../ui/time.tsx';
import { Toaster } from '../ui/toast.tsx';
import { ledgerVerdict, type Reading, receivedRate } from './vital-signs.ts';

const Palette = lazy(async () => ({ default: (await import('./palette.tsx')).Palette }));
const ShortcutHelp = lazy(async () => ({ default: (await import('./palette.tsx')).ShortcutHelp }));

const SECTIONS = [
  { to: '/', label: 'Overview', icon: 'overview', key: 'o' },
  { to: '/live', label: 'Live', icon: 'live', key: 'l' },
  { to: '/destinations', label: 'Destinations', short: 'Destin.', icon: 'destinations', key: 'd' },
  { to: '/sources', label: 'Sources', icon: 'sources', key: 's' },
  { to: '/users', label: 'Users', icon: 'users', key: 'u' },
  { to: '/settings', label: 'Settings', icon: 'settings', key: ',' },
] as const satisfies readonly {
  to: string;
  label: string;
  short?: string;
  icon: IconName;
  key: string;
}[];

/** The frame of every page: sections at the left, the state of the whole at the top. */
export function AppShell() {
  const [isSearching, setIsSearching] = useState(false);
  const [isHelping, setIsHelping] = useState(false);
  useShortcut('mod+k', 'Search or jump', () => setIsSearching(true));
  useShortcut('?', 'These keys', () => setIsHelping(true));
  useSignOutWhenSessionEnds();
  return (
    <div className="app">
      <a className="skip-link" href="#contents">
        Skip to contents
      </a>
      <Rail />
      <TopBar onSearch={() => setIsSearching(true)} />
      <main id="contents" tabIndex={-1}>
        <Outlet />
      </main>
      <Toaster />
      <Suspense>
        {isSearching && <Palette onClose={() => setIsSearching(false)} />}
        {isHelping && <ShortcutHelp onClose={() => setIsHelping(false)} />}
      </Suspense>
    </div>
  );
}

function Rail() {
  const { data: status } = useQuery(statusQuery);
  const troubled = Object.values(status?.lanes ?? {}).filter(({ state }) => state === 'failing').length;
  return (
    <nav className="rail" aria-label="Sections">
      <Link to="/" className="brand">
        <Icon name="logo" />
        <span className="w">millrace</span>
      </Link>
      <ul>
        {SECTIONS.map((section) => (
          <li key={section.to}>
            <SectionLink section={section} count={section.to === '/destinations' ? troubled : 0} />
          </li>
        ))}
      </ul>
      <Uptime startedAt={status?.startedAt} />
    </nav>
  );
}

interface SectionLinkProps {
  readonly section: (typeof SECTIONS)[number];
  /** Of what needs a person there. */
  readonly count: number;
}

function SectionLink({ section, count }: SectionLinkProps) {
  const { to, label, icon, key } = section;
  const navigate = useNavigate();
  useShortcut(`g ${key}`, label, () => void navigate({ to }));
  return (
    <Link
      to={to}
      title={label}
      activeOptions={{ exact: to === '/' }}
      activeProps={{ 'aria-current': 'page' }}
    >
      <Icon name={icon} />
      <span className="w" data-s={'short' in section ? section.short : undefined}>
        <span>{label}</span>
      </span>
      {count > 0 && (
        <span className="n bad" title={`${count} failing`}>
          {count}
          <span className="sr"> failing</span>
        </span>
      )}
    </Link>
  );
}

function Uptime({ startedAt }: { readonly startedAt: string | undefined }) {
  const now = useNow(10_000);
  return (
    <div className="foot">
      {startedAt !== undefined && <span>Up {duration(Math.max(1000, now - Date.parse(startedAt)))}</span>}
    </div>
  );
}

function TopBar({ onSearch }: { readonly onSearch: () => void }) {
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
      <SessionMenu />
    </header>
  );
}

/** How much arrives, and whether all of it is accounted for. */
function VitalSigns() {
  const { data: status, isError } = useQuery({ ...statusQuery, refetchInterval: REFRESH });
  const [readings, setReadings] = useState<readonly Reading[]>([]);
  useEffect(() => {
    if (status !== undefined) setReadings((before) => [...before.slice(-4), status]);
  }, [status]);
  if (isError) return <span className="st bad">no answer from the server</span>;
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

function SessionMenu() {
  const { data: session } = useQuery(sessionQuery);
  const { zone } = usePreferences();
  const queryClient = useQueryClient();
  if (!session) return null;
  const leave = async (): Promise<void> => {
    await signOut();
    queryClient.setQueryData(sessionQuery.queryKey, null);
  };
  return (
    <Menu
      trigger={
        <button type="button" className="me">
          <span aria-hidden="true">{session.name.slice(0, 2).toUpperCase()}</span>
          <span className="sr">
            {session.name}, {session.role}
          </span>
        </button>
      }
    >
      <div className="menu-h">
        {session.name}
        <span className="dim">{session.role}</span>
      </div>
      <MenuItem onSelect={() => setPreferences({ zone: zone === 'utc' ? 'local' : 'utc' })}>
        {zone === 'utc' ? 'Show local times' : 'Show times in UTC'}
      </MenuItem>
      <MenuItem onSelect={() => void leave()}>
        <LogOut className="i" aria-hidden />
        Sign out
      </MenuItem>
    </Menu>
  );
}

/** Sends to the sign-in page when the server says, to whatever was asked, that the session has ended. */
function useSignOutWhenSessionEnds(): void {
  const { data: session } = useQuery(sessionQuery);
  const router = useRouter();
  useEffect(() => {
    if (session === null) void router.invalidate();
  }, [session, router]);
}
