// ping and pong in Java, with com.sun.net.httpserver: what docs/pingpong.md says of their answers.
//
//   java -cp pingpong.jar PingPong pong [--bind ADDRESS] [--port PORT]
//   java -cp pingpong.jar PingPong ping --pong HOST:PORT [--retries N] [--timeout S]
//       [--bind ADDRESS] [--port PORT]

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.HttpURLConnection;
import java.net.InetSocketAddress;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

public final class PingPong {
    private static final long LONGEST = 1L << 30;
    private static final int PART = 1 << 16;
    private static final Pattern HOST = Pattern.compile("[\\w!$%&'()*+,.:;=\\[\\]~-]*");
    private static final byte[] MIDDLE = new byte[PART];

    static {
        Arrays.fill(MIDDLE, (byte) 'o');
    }

    /** Answers a request for so many bytes below a path. */
    interface Service {
        void serve(HttpExchange exchange, String path, long length) throws IOException, InterruptedException;
    }

    /** Sends a head; a length of 0 or more is that of the body that follows. */
    private static OutputStream head(HttpExchange exchange, int status, String type, long length)
            throws IOException {
        exchange.getResponseHeaders().set("Content-Type", type);
        final boolean toHead = exchange.getRequestMethod().equals("HEAD");
        if (toHead && length >= 0) {
            exchange.getResponseHeaders().set("Content-Length", Long.toString(length));
        }
        // -1 means that there is no body, and 0 that it comes in chunks
        exchange.sendResponseHeaders(status, toHead || length == 0 ? -1 : Math.max(length, 0));
        return exchange.getResponseBody();
    }

    private static void say(HttpExchange exchange, int status, String type, String text)
            throws IOException {
        final byte[] body = text.getBytes(StandardCharsets.US_ASCII);
        final OutputStream out = head(exchange, status, type, body.length);
        if (!exchange.getRequestMethod().equals("HEAD")) {
            out.write(body);
        }
    }

    /** Whether a request has the one Host that it needs; HTTP/1.0 needs none. */
    private static boolean namesHost(HttpExchange exchange) {
        final List<String> hosts = exchange.getRequestHeaders().getOrDefault("Host", List.of());
        return hosts.isEmpty()
                ? exchange.getProtocol().equals("HTTP/1.0")
                : hosts.size() == 1 && HOST.matcher(hosts.get(0)).matches();
    }

    /** Answers requests for a number of bytes below its paths, and refuses all others. */
    private static void answer(HttpExchange exchange, Pattern known, Service service)
            throws IOException, InterruptedException {
        final String method = exchange.getRequestMethod();
        final Matcher found = known.matcher(exchange.getRequestURI().toString());
        if (!namesHost(exchange)) {
            exchange.getResponseHeaders().set("Connection", "close");
            say(exchange, 400, "text/plain", "this is no HTTP/1.1\n");
        } else if (!method.equals("GET") && !method.equals("HEAD")) {
            exchange.getResponseHeaders().set("Allow", "GET, HEAD");
            say(exchange, 405, "text/plain", "only GET and HEAD are answered\n");
        } else if (!found.matches()) {
            say(exchange, 404, "text/plain", "pong has /pong/N, ping has /ping/N and /mping/N\n");
        } else if (found.group(2).length() > 10 || Long.parseLong(found.group(2)) > LONGEST) {
            say(exchange, 400, "text/plain", "the longest answer has 1073741824 bytes\n");
        } else {
            service.serve(exchange, found.group(1), Long.parseLong(found.group(2)));
        }
    }

    /** Sends p, then o's, then ng. */
    private static void pong(HttpExchange exchange, String path, long wanted) throws IOException {
        final long length = Math.max(wanted, 4);
        final OutputStream out = head(exchange, 200, "text/plain", length);
        if (exchange.getRequestMethod().equals("HEAD")) {
            return;
        }
        out.write('p');
        for (long left = length - 3; left > 0; left -= PART) {
            out.write(MIDDLE, 0, (int) Math.min(left, PART));
        }
        out.write('n');
        out.write('g');
    }

    /** Asks pong for what a client of ping asks of it. */
    private static final class Relay implements Service {
        private final String url;
        private final int retries;
        private final long timeoutMs;

        Relay(Map<String, String> options) {
            url = "http://" + options.get("pong") + "/pong/";
            retries = Integer.parseInt(options.get("retries"));
            timeoutMs = Math.round(1000 * Double.parseDouble(options.get("timeout")));
        }

        /** Asks again and again, with growing pauses, and answers with what came of it. */
        @Override
        public void serve(HttpExchange exchange, String path, long length)
                throws IOException, InterruptedException {
            final long arrival = System.nanoTime();
            final boolean measured = path.equals("mping");
            int code = 503;
            long received = 0;
            int again = 0;
            for (;; again++) {
                try {
                    final HttpURLConnection pong =
                            ask(measured ? "GET" : exchange.getRequestMethod(), length);
                    code = pong.getResponseCode();
                    if (!measured) {
                        relay(exchange, pong);
                        return;
                    }
                    received = copy(pong, OutputStream.nullOutputStream());
                    break;
                } catch (IOException error) {
                    if (exchange.getResponseCode() >= 0) {
                        throw error; // what the client has got can't be taken back
                    }
                    code = 503;
                    if (again >= retries || System.nanoTime() - arrival >= 1_000_000 * timeoutMs) {
                        break;
                    }
                    Thread.sleep(1L << Math.min(again, 8));
                }
            }
            if (!measured) {
                say(exchange, 503, "text/plain", "pong can't be reached\n");
                return;
            }
            final double duration = (System.nanoTime() - arrival) / 1e6;
            final String told = String.format(Locale.ROOT,
                    "{\"length\": %d, \"code\": %d, \"retries\": %d, \"duration\": %.6f}",
                    received, code, again, duration);
            say(exchange, code == 503 ? 503 : 200, "application/json", told);
        }

        private HttpURLConnection ask(String method, long length) throws IOException {
            final HttpURLConnection pong = (HttpURLConnection) new URL(url + length).openConnection();
            pong.setRequestMethod(method);
            pong.setConnectTimeout((int) timeoutMs);
            pong.setReadTimeout((int) timeoutMs);
            return pong;
        }

        /** Copies the body of pong's answer, and returns its length. */
        private static long copy(HttpURLConnection pong, OutputStream out) throws IOException {
            final boolean good = pong.getResponseCode() < 400;
            long received = 0;
            try (InputStream body = good ? pong.getInputStream() : pong.getErrorStream()) {
                received = body == null ? 0 : body.transferTo(out);
            }
            if (received < pong.getContentLengthLong() && !pong.getRequestMethod().equals("HEAD")) {
                throw new EOFException(); // the stream does not tell
            }
            return received;
        }

        private static void relay(HttpExchange exchange, HttpURLConnection pong) throws IOException {
            final long length = pong.getContentLengthLong();
            copy(pong, head(exchange, pong.getResponseCode(), "text/plain", length));
        }
    }

    private static Map<String, String> read(String[] words) {
        final Map<String, String> options = new HashMap<>(
                Map.of("bind", "0.0.0.0", "port", "8080", "retries", "10", "timeout", "10"));
        for (int i = 1; i + 1 < words.length; i += 2) {
            options.put(words[i].replaceFirst("^--", ""), words[i + 1]);
        }
        return options;
    }

    public static void main(String[] words) throws IOException {
        final Map<String, String> options = read(words);
        final boolean isPing = words.length > 0 && words[0].equals("ping");
        if (words.length == 0 || !(isPing ? options.containsKey("pong") : words[0].equals("pong"))) {
            System.err.println("usage: PingPong pong | ping --pong HOST:PORT [OPTIONS]");
            System.exit(2);
        }
        // Else a head and its body wait for each other's acknowledgement.
        System.setProperty("sun.net.httpserver.nodelay", "true");
        System.setProperty("sun.net.httpserver.maxIdleConnections", "4096");
        System.setProperty("sun.net.httpserver.idleInterval", "75");
        System.setProperty("http.maxConnections", "4096");
        final String paths = isPing ? "m?ping" : "pong";
        final Pattern known = Pattern.compile(
                "(?:(?i:http)://[^/]*)?/(" + paths + ")/0*([0-9]+)(?:\\?.*)?");
        final Service service = isPing ? new Relay(options) : PingPong::pong;
        final int port = Integer.parseInt(options.get("port"));
        final HttpServer server = HttpServer.create(new InetSocketAddress(options.get("bind"), port), 4096);
        server.setExecutor(Executors.newCachedThreadPool());
        server.createContext("/", exchange -> {
            try {
                answer(exchange, known, service);
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            } finally {
                exchange.close();
            }
        });
        server.start();
    }
}
