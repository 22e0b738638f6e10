// address is where the page is, asked for JSON; what else is in the query stays.
function address() {
  const url = new URL(location.href);
  url.searchParams.set("format", "json");
  url.hash = "";
  return url;
}
